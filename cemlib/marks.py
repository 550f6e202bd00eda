"""The mark of a number that rests on an attack which had not converged.

Tables, figures, sentences and descriptions all take it from here. What counts as converged is the
rule of `cemlib.attacks.convergence`; a closed form has nothing to converge.
"""

MARK = "†"
NOTE = (
    f"{MARK} the attack quoted had not converged on at least one seed: a longer one may find more;"
    " no verdict is drawn"
)


def marked(text: str, unconverged: bool) -> str:
    """Return a text with the mark behind it, where it rests on an unconverged attack."""
    return text + MARK if unconverged else text
