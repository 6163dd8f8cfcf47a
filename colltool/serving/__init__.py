"""Network time of a token of a served model: deployments, their collectives (``serve``), KV
transfer, search and changes, and new weights (``reshard``)."""
