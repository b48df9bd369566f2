package access

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	tokenjwt "k8s.io/apiserver/pkg/authentication/token/jwt"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// An issuer makes the tokens of ServiceAccounts, and knows them again. It implements
// [authenticator.Token].
type issuer struct {
	name      string
	signer    jose.Signer
	algorithm jose.SignatureAlgorithm
	public    crypto.PublicKey
	// get returns an object of one of the kinds that tokens end with.
	get func(plural string, key lw.Key) (*metav1.PartialObjectMetadata, error)
}

// claims are those of the tokens of kube-apiserver.
type claims struct {
	jwt.Claims
	Kubernetes struct {
		Namespace      string `json:"namespace"`
		ServiceAccount named  `json:"serviceaccount"`
		Pod            *named `json:"pod,omitempty"`
		Secret         *named `json:"secret,omitempty"`
		Node           *named `json:"node,omitempty"`
	} `json:"kubernetes.io"`
}

type named struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

func newIssuer(name string, key crypto.Signer, get func(string, lw.Key) (*metav1.PartialObjectMetadata, error)) (*issuer, error) {
	if key == nil {
		made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		key = made
	}
	i := &issuer{name: name, algorithm: jose.ES256, public: key.Public(), get: get}
	if _, ok := key.(*rsa.PrivateKey); ok {
		i.algorithm = jose.RS256
	}
	var err error
	i.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: i.algorithm, Key: key}, nil)
	return i, err
}

// account returns the metadata of an object of the server.
func (a *Access) account(plural string, key lw.Key) (*metav1.PartialObjectMetadata, error) {
	s := a.server.Load()
	if s == nil {
		return nil, errors.New("there is no server yet")
	}
	return lwtest.Objects[*metav1.PartialObjectMetadata](s, plural).Get(key)
}

// issue is the Token of a [lwtest.Resource].
func (i *issuer) issue(_ context.Context, r lwtest.TokenRequest) (string, error) {
	now := time.Now()
	c := claims{Claims: jwt.Claims{
		Issuer: i.name, Subject: serviceaccount.MakeUsername(r.Account.Namespace, r.Account.Name), Audience: r.Audiences,
		Expiry: jwt.NewNumericDate(r.Expires), NotBefore: jwt.NewNumericDate(now), IssuedAt: jwt.NewNumericDate(now),
		ID: string(uuid.NewUUID()),
	}}
	if len(r.Audiences) == 0 {
		c.Audience = jwt.Audience{i.name}
	}
	k := &c.Kubernetes
	k.Namespace, k.ServiceAccount = r.Account.Namespace, named{r.Account.Name, r.UID}
	bound := &named{r.BoundName, r.BoundUID}
	switch r.BoundKind {
	case "":
		return jwt.Signed(i.signer).Claims(c).Serialize()
	case "Pod":
		k.Pod = bound
	case "Secret":
		k.Secret = bound
	case "Node":
		k.Node = bound
	default:
		return "", apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", r.BoundKind))
	}
	object, err := i.bound(k.Namespace, c.binding())
	if err != nil {
		return "", err
	}
	if bound.UID == "" {
		bound.UID = object.UID
	} else if bound.UID != object.UID {
		return "", apierrors.NewConflict(schema.GroupResource{Resource: r.BoundKind}, r.BoundName, fmt.Errorf("the UID in the bound "+
			"object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", bound.UID))
	}
	return jwt.Signed(i.signer).Claims(c).Serialize()
}

// A binding is an object with which a token ends.
type binding struct {
	plural string
	*named
}

// binding returns that of the claims; its named is nil if there is none.
func (c *claims) binding() binding {
	switch k := &c.Kubernetes; {
	case k.Pod != nil:
		return binding{"pods", k.Pod}
	case k.Secret != nil:
		return binding{"secrets", k.Secret}
	case k.Node != nil:
		return binding{"nodes", k.Node}
	}
	return binding{}
}

func (i *issuer) bound(namespace string, b binding) (*metav1.PartialObjectMetadata, error) {
	if b.plural == "nodes" {
		namespace = ""
	}
	return i.get(b.plural, lw.Key{Namespace: namespace, Name: b.Name})
}

// AuthenticateToken implements [authenticator.Token].
func (i *issuer) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{i.algorithm})
	if err != nil {
		return nil, false, nil // it may be another authenticator's
	}
	var c claims
	if err := parsed.Claims(i.public, &c); err != nil {
		return nil, false, fmt.Errorf("invalid signature: %w", err)
	}
	if err := c.ValidateWithLeeway(jwt.Expected{Issuer: i.name, Time: time.Now()}, 0); errors.Is(err, jwt.ErrExpired) {
		return nil, false, errors.New("service account token has expired")
	} else if err != nil {
		return nil, false, err
	}
	wanted, ok := authenticator.AudiencesFrom(ctx)
	if !ok {
		wanted = authenticator.Audiences{i.name}
	}
	audiences := authenticator.Audiences(c.Audience).Intersect(wanted)
	if len(audiences) == 0 {
		return nil, false, fmt.Errorf("token audiences %q is invalid for the target audiences %q", c.Audience, wanted)
	}
	k := &c.Kubernetes
	account, err := i.get("serviceaccounts", lw.Key{Namespace: k.Namespace, Name: k.ServiceAccount.Name})
	if err != nil {
		return nil, false, err
	}
	if account.UID != k.ServiceAccount.UID {
		return nil, false, fmt.Errorf("service account UID (%s) does not match claim (%s)", account.UID, k.ServiceAccount.UID)
	}
	info := serviceaccount.ServiceAccountInfo{
		Namespace: k.Namespace, Name: k.ServiceAccount.Name, UID: string(account.UID), CredentialID: tokenjwt.CredentialIDForJTI(c.ID),
	}
	if b := c.binding(); b.named != nil {
		object, err := i.bound(k.Namespace, b)
		if err != nil {
			return nil, false, fmt.Errorf("service account token has been invalidated: %w", err)
		}
		if object.UID != b.UID {
			return nil, false, errors.New("service account token has been invalidated")
		}
		switch b.plural {
		case "pods":
			info.PodName, info.PodUID = b.Name, string(b.UID)
		case "nodes":
			info.NodeName, info.NodeUID = b.Name, string(b.UID)
		}
	}
	return &authenticator.Response{User: info.UserInfo(), Audiences: audiences}, true, nil
}
