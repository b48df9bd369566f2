package lw_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// A collection of which most objects are seldom read is kept packed: nothing is left out, and a read
// decodes the object that it wants.
func ExamplePack() {
	test := func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := lwtest.NewServer(t, lwtest.Resource{Group: "example.com", Plural: "jobs", Kind: "Job"})
			jobs := lwtest.Objects[*exampleJob](server, "jobs")
			inf := lw.NewInformer(lw.Pack(jobs.Source(), lw.PackOptions{}), nil)
			byState := lw.NewIndex(inf, func(p *lw.Packed[*exampleJob]) string { return p.Open().State })
			inf.AddHandler(lw.Handler[*lw.Packed[*exampleJob]]{
				Add: func(p *lw.Packed[*exampleJob]) { fmt.Println(p.GetName()) }, // opens nothing
			})
			go inf.Run(t.Context())
			for p := range byState.Lookup("failed") {
				job := p.Open() // shared, as all objects are
				fmt.Println(job.Name, job.State)
			}
		})
	}
	_ = test // func TestJobs(t *testing.T)
}

// Others may make as many jobs as they like, and as large as the server takes them: the informer keeps
// those that are read, and asks for another one when it is.
func ExamplePackLimit() {
	test := func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := lwtest.NewServer(t, lwtest.Resource{Group: "example.com", Plural: "jobs", Kind: "Job"})
			jobs := lwtest.Objects[*exampleJob](server, "jobs")
			limit := &lw.PackLimit{Bytes: 256 << 20}
			inf := lw.NewInformer(lw.Pack(jobs.Source(), lw.PackOptions{Limit: limit}), nil)
			go inf.Run(t.Context())
			if p, ok := inf.Store().Get(lw.Key{Namespace: "a", Name: "nightly"}); ok {
				job, err := p.OpenContext(t.Context()) // a request, if the job was let go
				if err != nil {
					t.Fatal(err)
				}
				fmt.Println(job.Name, job.State)
			}
			for _, s := range limit.Usage().Largest {
				fmt.Println(s.Namespace, "has", s.Objects, "jobs of", s.Bytes, "bytes")
			}
		})
	}
	_ = test // func TestJobs(t *testing.T)
}

type exampleJob struct {
	lw.Meta `json:"metadata"`
	State   string `json:"state"`
}
