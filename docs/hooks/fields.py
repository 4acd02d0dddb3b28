"""Shows the comment beside a field of a dataclass as the field's documentation."""

import re
from typing import Any

from griffe import Attribute, Docstring, Extension

COMMENT = re.compile(r"  # (?!noqa|type:)(.+)$")


class FieldComments(Extension):
    """Gives attributes without a docstring the comment that follows them in the source."""

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """Take the comments on the lines of an attribute."""
        if attr.docstring is None and attr.lines:
            comments = [found[1] for line in attr.lines if (found := COMMENT.search(line))]
            if comments:
                text = " ".join(comments)
                attr.docstring = Docstring(f"{text[0].upper()}{text[1:]}.", parent=attr)
