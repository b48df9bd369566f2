package cache_test

// The package's own tests cannot import lwhook, which imports the package.
import _ "k8s.io/client-go/lwhook"
