"""The oracle: a literal, slow, float64 transcription of the paper, to be read next to it.

One small function an equation, definition or algorithm line; loops where the paper has sums;
no JAX, no batching, no padding, and no import from olrank, so that agreement of the fast code
with it is evidence. Distributions are given by enumerating every outcome with its exact
probability. Where the paper is silent or contradicts itself the docstrings name the reading.

Module            Of the paper
network           f(x; theta), theta_0, g(x; theta)                       Sec. 3.2, Alg. 1 line 2
confidence        A_t, alpha_t, eps(m), CB_ij, omega_t                    Lemma 1, Def. 1
order             topological_sort(omega_t), its propensities             Alg. 1 line 8
feedback          o_t, Omega_t, Omega_t^ind, y_ij                         Sec. 3.1, 3.2
descent           L_t(theta), its descent, LambdaRank's weights           Eq. (loss), Alg. 1 line 11
pairrank          pairwise logistic regression                            baselines of Sec. 5
plackett_luce     PDGD                                                    baselines of Sec. 5
interleave        DBGD's comparisons                                      baselines of Sec. 5
clicks            the dependent click model                               Sec. 5.1
metrics           K(tau, tau*), NDCG, ratio of certain orders             Eq. (regret), Sec. 5.2
round             one whole round                                         Alg. 1 lines 5-12

Conventions: documents, slots and lists count from 0, ranks from 1; a ranking is a tuple of
document numbers from the top down; a distribution is a dict from outcome to probability.
"""
