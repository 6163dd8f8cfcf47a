"""Drawings of fabrics as SVG, and plots of results by matplotlib; the core opens them through
:mod:`colltool.base.extras`."""
