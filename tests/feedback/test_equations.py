"""Lines that solve equations as these change, and find out how far they are to be pulled."""

import jax.numpy as jnp
import numpy as np
import pytest

from olrank.feedback import equations

pytestmark = pytest.mark.usefixtures("x64")

D = 3


def told(n_rows, seed=0, lines=None, teaches=(True, True)):
    rng = np.random.default_rng(seed)
    rows, curve, slope = rng.normal(0, 1, (n_rows, D)), rng.random(n_rows), rng.normal(0, 1, n_rows)
    lines = equations.nothing(2, D) if lines is None else lines
    after = equations.changed(
        lines, jnp.asarray(rows), jnp.asarray(curve), jnp.asarray(slope), jnp.asarray(teaches)
    )
    return after, (rows.T * curve) @ rows, slope @ rows


def test_rows_add_to_the_lines_that_they_teach():
    lines, curvature, slope = told(5, teaches=(False, True))
    np.testing.assert_array_equal(lines.curvature[0], 0.0)
    np.testing.assert_array_equal(lines.slope[0], 0.0)
    np.testing.assert_allclose(lines.curvature[1], curvature, rtol=1e-12)
    np.testing.assert_allclose(lines.slope[1], slope, rtol=1e-12)


def test_a_line_solves_its_equations():
    lines, curvature, slope = told(20)
    lines = equations.fitted(lines._replace(pulls=jnp.array([2.0, 50.0])), n_steps=D + 1)
    for i, pull in enumerate((2.0, 50.0)):
        exact = np.linalg.solve(curvature + pull * np.eye(D), slope)
        np.testing.assert_allclose(lines.betas[i], exact, rtol=1e-9)


def test_steps_go_on_from_where_the_line_stood():
    lines, curvature, slope = told(20)
    held = lines.pulls
    for _ in range(6):  # the pulls move with every call, so they are put back
        lines = equations.fitted(lines._replace(pulls=held), n_steps=1)
    exact = np.linalg.solve(curvature + float(held[0]) * np.eye(D), slope)
    np.testing.assert_allclose(lines.betas[0], exact, rtol=1e-3)


def test_a_pull_is_a_step_of_expectation_maximisation():
    curvature = np.diag([4.0, 1.0, 0.5])  # of a diagonal the probes' trace is exact
    slope, pull = np.array([2.0, -1.0, 0.3]), 30.0
    lines = equations.nothing(1, D)
    lines = lines._replace(curvature=jnp.asarray(curvature)[None], slope=jnp.asarray(slope)[None])
    found = equations.fitted(lines, n_steps=20)
    inverse = 1.0 / (np.diag(curvature) + pull)
    beta = inverse * slope
    expected = (D + 2.0) / (beta @ beta + inverse.sum() + 2.0 / pull)
    np.testing.assert_allclose(found.betas[0], beta, rtol=1e-9)
    np.testing.assert_allclose(found.pulls, [expected], rtol=1e-9)


def test_the_pull_becomes_that_of_the_lines_that_slopes_come_from():
    rng = np.random.default_rng(4)
    d, pull = 400, 4.0  # ||beta||^2 is 100, give or take 7
    curvature = np.diag(rng.uniform(1.0, 20.0, d))
    beta = rng.normal(0, pull**-0.5, d)
    slope = curvature @ beta + rng.normal(0, 1, d) * np.sqrt(np.diag(curvature))
    lines = equations.nothing(1, d)
    lines = lines._replace(curvature=jnp.asarray(curvature)[None], slope=jnp.asarray(slope)[None])
    for _ in range(200):
        lines = equations.fitted(lines)
    # Seven per cent of standard deviation, and what the noise adds to it.
    assert 0.7 * pull < float(lines.pulls[0]) < 1.4 * pull


def test_equations_that_are_not_definite_do_no_harm():
    lines = equations.nothing(1, D)
    lines = lines._replace(
        curvature=-100.0 * jnp.eye(D)[None], slope=jnp.ones((1, D)), pulls=jnp.ones(1)
    )
    for _ in range(5):
        lines = equations.fitted(lines)
    assert bool(jnp.isfinite(lines.betas).all())
    assert bool(jnp.isfinite(lines.pulls).all())
