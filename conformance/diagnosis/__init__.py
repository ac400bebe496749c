"""Why a claim failed: which known mistake makes exactly what the target made, and on which line."""
