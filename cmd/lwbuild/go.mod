module github.com/go-lw/lw/cmd/lwbuild

go 1.26.0

require github.com/google/go-cmp v0.7.0
