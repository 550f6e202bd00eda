"""Collaborative labelling (PCTC): participants vote on images, and no single vote is revealed.

Cryptography: `paillier`, `sharing`, `packing`. Protocol: `setting`, `messages`, `parties`,
`protocol`; on machines of their own: `dealing`, `channels`, `queries`, `roles`. Learning:
`learning`, `loss`, `participants`, `experiment`, `accounting`. Cost: `cost`.
"""
