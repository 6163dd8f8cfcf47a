"""Schedules of one's own: YAML, MSCCL XML, MSCCL++ plans and plugins, executed and proved."""
