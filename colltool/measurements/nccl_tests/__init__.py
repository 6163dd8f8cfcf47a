"""Logs of nccl-tests and rccl-tests, as text and as JSON."""
