"""Changes of settings that met, and the values that the model allows after them."""

from tests.simulator.model.settings import SettingsModel


def test_changes_of_different_settings_are_exact() -> None:
    """Both are in force, although they met."""
    model = SettingsModel({"a": "1"}, 1)
    one, other = model.begin(["a"]), model.begin(["b"])
    model.unsure({"a": "2"})
    model.unsure({"b": "3"})
    model.acknowledged(one, {"a": "2"})
    model.acknowledged(other, {"b": "3"})

    assert model.possible == {"a": ("2",), "b": ("3",)}


def test_of_changes_of_one_setting_either_may_be_last() -> None:
    """The value of before may be told as well: it is not known that it is not."""
    model = SettingsModel({"a": "1"}, 1)
    before, one, other = model.possible, model.begin(["a", "c"]), model.begin(["a"])
    model.unsure({"a": "2"})
    model.unsure({"a": "3"})
    model.refused(one, before)
    model.acknowledged(other, {"a": "3"})

    assert model.possible == {"a": ("1", "2", "3"), "c": (None,)}
