"""What is wrong with a machine or a run, from its logs and traces."""
