"""Connections that may bear one container id: a row for each case."""

import pytest

from distributary.pipeline.subscriptions.container_ids import (
    MAY_BEAR,
    Bearers,
    refused_container,
)


@pytest.mark.parametrize("sole", [False, True])
@pytest.mark.parametrize("bearers", Bearers)
def test_a_sole_connection_shares_its_container_with_nobody(bearers: Bearers, sole: bool) -> None:
    """Neither an earlier nor a later connection; others share it."""
    alone = bearers is Bearers.SOLE or (sole and bearers is Bearers.SHARING)
    said = refused_container("c", bearers, sole=sole)
    assert bool(said) is alone
    assert not alone or "container-id 'c' is in use by another connection" in said


def test_the_table_has_no_gaps() -> None:
    """Every case has its row."""
    assert set(MAY_BEAR) == {(bearers, sole) for bearers in Bearers for sole in (False, True)}
