"""Results as text, Markdown, HTML, CSV and JSON. Views (``views``) turn results into blocks and
documents; ``dispatch`` finds the view of a result, and one module per format writes it."""
