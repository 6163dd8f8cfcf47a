"""What a token costs on the network: deployments, their collectives, KV transfer, new weights."""
