"""Long lists of names, written as text."""


def words(text: str) -> list[str]:
    return text.split()
