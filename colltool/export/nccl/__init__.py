"""Winners as NCCL takes them: its names, its protocols, the file of its tuner plugin."""
