package main

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

func TestOutages(t *testing.T) {
	for _, outage := range lwtest.Outages() {
		t.Run(outage.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := lwtest.NewServer(t,
					lwtest.Resource{Group: "example.dev", Plural: "websites", Kind: "Website", Status: true},
					lwtest.Resource{Plural: "configmaps", Kind: "ConfigMap"})
				sites, made := lwtest.Objects[*Website](server, "websites"), lwtest.Objects[*corev1.ConfigMap](server, "configmaps")
				c, err := newController(&rest.Config{
					Host: server.URL(), Transport: server.Client().Transport,
					ContentConfig: rest.ContentConfig{ContentType: "application/json"},
				})
				if err != nil {
					t.Fatal(err)
				}
				go c.group.Run(t.Context())
				go c.work(t.Context())
				time.Sleep(time.Minute)

				outage.Do(server)
				site := &Website{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bakery"}}
				site.Spec.Pages = map[string]string{"home": "Bread"}
				if site, err = sites.Create(site); err != nil {
					t.Fatal(err)
				}
				time.Sleep(outage.Lasts + 5*time.Minute)

				have, err := made.Get(lw.KeyOf(site))
				if err != nil || !maps.Equal(have.Data, site.Spec.Pages) || !metav1.IsControlledBy(have, site) {
					t.Errorf("the ConfigMap is %v (%v)", have, err)
				}
				if site, err = sites.Get(lw.KeyOf(site)); err != nil || site.Status.Pages != 1 {
					t.Errorf("the status is %+v (%v)", site.Status, err)
				}
			})
		})
	}
}
