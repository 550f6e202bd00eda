"""Label collaboratively (PCTC): participants vote on images, and nobody learns a single vote.

Cryptography: `paillier`, `sharing`, `packing`. Protocol: `setting`, `messages`, `parties`,
`protocol`; over sockets: `channels`, `process`, `sockets`. Learning: `learning`, `loss`,
`participants`, `experiment`, `accounting`. Cost: `cost`.
"""
