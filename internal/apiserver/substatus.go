package apiserver

import "k8s.io/apimachinery/pkg/runtime/schema"

// statusSubresource is the only subresource that a server has; see [Resource.Status].
const statusSubresource = "status"

// A part is what an update may change. It returns the content to store, made of the stored one and
// that of the request. The metadata that only the server sets is taken from the stored one later.
type part func(old, in *content) *content

// wholeObject is the part of a resource without subresources.
func wholeObject(_, in *content) *content {
	return &content{meta: in.meta, rest: in.rest, status: in.status}
}

// exceptStatus is the part of a resource whose status is a subresource.
func exceptStatus(old, in *content) *content {
	return &content{meta: in.meta, rest: in.rest, status: old.status}
}

// onlyStatus is the part of the subresource.
func onlyStatus(old, in *content) *content {
	return &content{meta: old.meta, rest: old.rest, status: in.status}
}

// createdWithStatus are the resources whose objects keep the status that they are created with,
// although it is a subresource: kubelets register their nodes so. kube-apiserver empties that of all
// others, as it does for custom resources.
var createdWithStatus = map[schema.GroupResource]bool{
	{Resource: "nodes"}: true,
	{Group: "networking.k8s.io", Resource: "servicecidrs"}: true,
}

// part returns what an update by this request may change.
func (x *exchange) part() part {
	switch {
	case x.req.Subresource == statusSubresource:
		return onlyStatus
	case x.collection.Resource.Status:
		return exceptStatus
	}
	return wholeObject
}
