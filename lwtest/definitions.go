package lwtest

// Definitions returns the resources customresourcedefinitions and apiservices, for a [Server] that
// serves what its CustomResourceDefinitions define, as a real one does:
//
//	server := lwtest.NewServer(t, append(lwtest.Definitions(), …)...)
//
// When a definition is written, its names are accepted, unless another one has the kind; it is
// established, served in its versions, and in discovery; and it has an APIService. A change of its
// spec ends the watches. A definition that is deleted is Terminating, and served, until the last of
// its objects that have finalizers is gone. All this has happened when the write returns. A schema
// is used as Resource.Schema is. There are no conversions: versions differ by their apiVersion
// alone, and defaults and rules of a schema have no effect.
//
// [Objects] knows a resource while it is served.
func Definitions() []Resource {
	return []Resource{
		{Group: "apiextensions.k8s.io", Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition", Cluster: true,
			Status: true, defines: true},
		{Group: "apiregistration.k8s.io", Plural: "apiservices", Kind: "APIService", Cluster: true},
	}
}
