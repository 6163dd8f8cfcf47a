"""One module a subject: the columns, the blocks and the document of what a command answers, side by
side."""
