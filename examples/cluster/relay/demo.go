package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// pod is what the agent reads of a pod.
type pod struct {
	lw.Meta `json:"metadata"`
	Spec    struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

// demo relays a server in memory by two relays. An agent watches the pods of its node at the first
// one, which ends, and goes on at the second one.
func demo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	server := lwtest.StartServer(
		lwtest.Resource{Plural: "pods", Kind: "Pod", Fields: []string{"spec.nodeName"}},
		lwtest.Resource{Plural: "services", Kind: "Service"},
	)
	defer server.Close()
	pods := lwtest.Objects[*pod](server, "pods")
	for i := range 100 {
		if err := create(pods, i); err != nil {
			return err
		}
	}
	up := upstream{server.URL(), server.Client(), reviewers()}
	var urls []string
	var stops []context.CancelFunc
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		running, stop := context.WithCancel(ctx)
		defer stop()
		go relay(running, up, l, "", "")
		urls, stops = append(urls, "http://"+l.Addr().String()), append(stops, stop)
	}

	// What lists is the URL's path and query, and who answers is for the transport.
	agent := lw.NewInformer(&lw.HTTP[*pod]{
		URL:    "http://relays/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1",
		Client: &http.Client{Transport: &anyOf{urls: urls}},
		Header: http.Header{"Authorization": {"Bearer agent"}},
	}, &lw.Options{Name: "agent"})
	go agent.Run(ctx)
	if err := agent.WaitForSync(ctx); err != nil {
		return err
	}
	fmt.Printf("the agent has %d pods of node-1\n", agent.Store().Len())
	stops[0]()
	for i := 100; i < 200; i++ {
		if err := create(pods, i); err != nil {
			return err
		}
	}
	last := lw.Key{Namespace: "shop", Name: "pod-191"}
	if _, err := lw.WaitFor(ctx, agent, last, func(p *pod) bool { return p != nil }); err != nil {
		return err
	}
	s := agent.Status()
	fmt.Printf("the first relay is gone: the agent has %d pods, after %d list requests in all\n", s.Objects, s.Requests["list"].Started)
	if s.Objects != 20 {
		return errors.New("the agent has not what the server has")
	}
	return nil
}

func create(pods *lwtest.Collection[*pod], i int) error {
	p := &pod{Meta: lw.Meta{Namespace: "shop", Name: fmt.Sprintf("pod-%d", i)}}
	p.Spec.NodeName = fmt.Sprintf("node-%d", i%10)
	_, err := pods.Create(p)
	return err
}

// anyOf sends each request to the first relay that answers, as a service of a cluster does.
type anyOf struct{ urls []string }

func (a *anyOf) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	for _, url := range a.urls {
		out := r.Clone(r.Context())
		out.URL.Host = url[len("http://"):]
		if resp, err = http.DefaultTransport.RoundTrip(out); err == nil && resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusNotFound {
			return resp, nil
		}
	}
	return resp, err
}

// reviewers is an API server that knows the token "agent", whose bearer may read pods and services.
func reviewers() kubernetes.Interface {
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		review.Status.Authenticated = review.Spec.Token == "agent"
		review.Status.User.Username = "agent"
		return true, review, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		review.Status.Allowed = review.Spec.User == "agent"
		return true, review, nil
	})
	return client
}
