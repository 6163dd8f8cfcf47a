"""Custom schedules: YAML, MSCCL XML, MSCCL++ plans and plugins, executed and proved."""
