module github.com/go-lw/lw/e2e

go 1.26.0

require (
	github.com/go-lw/lw v0.0.0
	k8s.io/api v0.37.2
	k8s.io/apimachinery v0.37.2
	k8s.io/client-go v0.37.2
)

require github.com/google/go-cmp v0.7.0 // indirect

replace github.com/go-lw/lw => ../
