"""PyTorch profiler traces: read as a stream, their collectives found, put on a fabric and held
against its prices."""

from colltool.traces.reader import is_trace

__all__ = ["is_trace"]
