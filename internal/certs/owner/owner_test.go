package owner

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

var errServerDown = errors.New("down")

// newClientAs returns a client that authenticates as user. If err is not nil, a SelfSubjectReview fails
// with err.
func newClientAs(user authenticationv1.UserInfo, err error) *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authenticationv1.SelfSubjectReview{
			Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: user},
		}, err
	})
	return client
}

func TestNewReference(t *testing.T) {
	for name, c := range map[string]struct {
		user      authenticationv1.UserInfo
		reviewErr error
		want      *metav1ac.OwnerReferenceApplyConfiguration
		wantErr   error
	}{
		"ServiceAccount of the pod": {
			user: authenticationv1.UserInfo{Username: "system:serviceaccount:rollcall-system:rollcall", UID: "1-2-3"},
			want: metav1ac.OwnerReference().
				WithAPIVersion("v1").WithKind("ServiceAccount").WithName("rollcall").WithUID("1-2-3"),
		},
		"ServiceAccount of a different namespace": {
			user:    authenticationv1.UserInfo{Username: "system:serviceaccount:default:rollcall", UID: "1-2-3"},
			wantErr: ErrNotServiceAccount,
		},
		"namespace with the same prefix": {
			user: authenticationv1.UserInfo{
				Username: "system:serviceaccount:rollcall-system-2:rollcall",
				UID:      "1-2-3",
			},
			wantErr: ErrNotServiceAccount,
		},
		"user is not a ServiceAccount": {
			user:    authenticationv1.UserInfo{Username: "admin", UID: "1-2-3"},
			wantErr: ErrNotServiceAccount,
		},
		"API server rejects a reference without a UID": {
			user:    authenticationv1.UserInfo{Username: "system:serviceaccount:rollcall-system:rollcall"},
			wantErr: ErrNotServiceAccount,
		},
		"API server is unavailable": {
			reviewErr: errServerDown,
			wantErr:   errServerDown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newReference(t.Context(), newClientAs(c.user, c.reviewErr), "rollcall-system")
			if diff := cmp.Diff(c.wantErr, err, cmpopts.EquateErrors()); diff != "" {
				t.Errorf("newReference returned a different error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the reference differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAdoptLease(t *testing.T) {
	user := authenticationv1.UserInfo{Username: "system:serviceaccount:rollcall-system:rollcall", UID: "1-2-3"}
	client := newClientAs(user, nil)
	for range 2 { // the second call must not change the owners
		if err := adoptLease(t.Context(), client, "rollcall-system", "rollcall"); err != nil {
			t.Fatal(err)
		}
	}
	lease, err := client.CoordinationV1().Leases("rollcall-system").Get(t.Context(), "rollcall", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ServiceAccount", Name: "rollcall", UID: "1-2-3"}}
	if diff := cmp.Diff(want, lease.OwnerReferences); diff != "" {
		t.Errorf("the owners differ (-want +got):\n%s", diff)
	}
}
