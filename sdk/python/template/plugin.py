"""{{name}}: a toolhost plugin in Python. Start by renaming and changing the tool."""

from typing import Annotated

from toolhost import BadArguments, Field, plugin, tool

plugin("{{name}}", "0.1.0")


@tool(read_only=True, examples=[({"text": "to be or not to be"}, '"to":2')])
def {{ident}}_count(text: str, top: Annotated[int, Field(ge=1, le=100)] = 10) -> dict[str, int]:
    """Counts how often each word of a text occurs.

    Args:
        text: The text to count.
        top: How many words to return, the most frequent first.
    """
    counts: dict[str, int] = {}
    for word in text.lower().split():
        counts[word] = counts.get(word, 0) + 1
    if not counts:
        raise BadArguments("the text has no words; give some", "text")
    return dict(sorted(counts.items(), key=lambda item: -item[1])[:top])
