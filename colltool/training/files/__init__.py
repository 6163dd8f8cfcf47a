"""What job, model, device and stack files may say, as pydantic models."""
