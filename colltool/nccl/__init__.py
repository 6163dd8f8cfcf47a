"""What a library runs: NCCL's own cost model, its constants by version, and the schedules of ours that price its picks."""
