"""NCCL's own cost model, its constants by version, and our schedules that price its picks."""
