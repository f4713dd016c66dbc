#!/bin/sh
# Makes the certificates of the tests, valid for 100 years: an authority, a server's (localhost), a
# client's, and a client's of another authority. Their keys are public: use them for nothing else.
set -eu
cd "$(dirname "$0")"
key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key"; }
authority() {
    key "$1"
    openssl req -x509 -new -key "$1.key" -out "$1.pem" -days 36500 -subj "/CN=Timberline test $1" \
        -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
}
signed() { # name, authority, usage
    key "$1"
    printf 'subjectAltName=DNS:localhost\nextendedKeyUsage=%s\nbasicConstraints=CA:FALSE\n' "$3" \
        > extensions
    openssl req -new -key "$1.key" -subj "/CN=Timberline test $1" |
        openssl x509 -req -CA "$2.pem" -CAkey "$2.key" -days 36500 -extfile extensions \
            -out "$1.pem" 2> /dev/null
    rm extensions
}
authority authority
authority other
signed server authority serverAuth
signed client authority clientAuth
signed stranger other clientAuth
rm authority.key other.key other.pem
