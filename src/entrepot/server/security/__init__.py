# SPDX-License-Identifier: Apache-2.0
"""Who may come in, as whom, and what he may do then; no sockets here, and nothing that waits for one.

users               names, hashed passwords and groups
credentials         the passwords that our own senders present to others
authority           what a user may do with which objects
channel_rules       from where and as whom a channel may be used
tls                 encrypted connections, and whom a certificate names
audit               who did what, in a log that shows when it was changed

Below these: profiles (names with asterisks), addresses,
distinguished_name, der, and at the root private_file (the files of all of them).
"""
