"""Views of results, one module per subject: the columns of tables, the blocks, and the JSON document.

``VIEWS`` of a module maps result types to their :class:`colltool.render.dispatch.View`.
"""
