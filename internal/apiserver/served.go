package apiserver

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/history"
)

// SetServed stops or starts to serve the collection, as a server does whose custom resource
// definition is deleted and created again. When it stops, all objects are deleted, whatever
// finalizers they have, the watches see that and end, and requests get 404. Every collection is
// served at first. The methods of the Collection are not concerned.
func (c *Collection) SetServed(served bool) {
	if c.served.Swap(served) == served || served {
		return
	}
	all, err := c.history.List("", metav1.ListOptions{})
	if err != nil {
		panic(err) // cannot happen: there is no option that could be wrong
	}
	for _, obj := range all.Items {
		// An error says that somebody else has deleted it.
		_, _, _ = c.history.Delete(obj.Key, history.Preconditions{})
	}
	c.history.Finish()
}
