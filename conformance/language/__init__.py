"""The language in which a pack writes its program: parsed, checked, and read in any arithmetic."""
