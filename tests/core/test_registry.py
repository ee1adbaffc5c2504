import pytest

from appl.core.registry import Registry
from appl.errors import UnknownNameError


def test_a_clash_is_an_error_and_a_wrong_name_gets_the_nearest():
    registry: Registry[object] = Registry("fruit", "appl.core")
    registry.register("apple")(1)
    registry.register("pear")(2)
    with pytest.raises(ValueError, match="two fruits are called 'apple'"):
        registry.register("apple")
        registry.register("apple")(3)
    assert registry.names() == ["apple", "pear"]
    assert registry.get("pear") == 2
    with pytest.raises(UnknownNameError, match="no fruit is called 'aple'; try apple"):
        registry.get("aple")
