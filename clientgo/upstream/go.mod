module github.com/go-lw/lw/clientgo/upstream

go 1.26.0
