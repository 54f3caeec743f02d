package manager

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// listPageSize is the number of objects in a page. Pages of four types with objects of 1.4 MiB fit into the memory of
// the controller.
const listPageSize = 50

// pagedLister lists objects in pages, and keeps of each page what the cache keeps. API servers without streaming lists,
// such as those of Kubernetes 1.33, otherwise send all objects of a type at once.
type pagedLister struct {
	toolscache.ListerWatcherWithContext
	transform toolscache.TransformFunc
}

// newPagedInformer returns a constructor of informers that list the objects with options in pages.
func newPagedInformer(
	byObject map[client.Object]cache.ByObject,
) func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer {
	transforms := map[reflect.Type]toolscache.TransformFunc{}
	for o, options := range byObject {
		transforms[reflect.TypeOf(o)] = options.Transform
	}
	return func(
		lw toolscache.ListerWatcher, o runtime.Object, resync time.Duration, indexers toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		if transform := transforms[reflect.TypeOf(o)]; transform != nil {
			lw = pagedLister{toolscache.ToListerWatcherWithContext(lw), transform}
		}
		return toolscache.NewSharedIndexInformer(lw, o, resync, indexers)
	}
}

// List implements [toolscache.Lister].
func (l pagedLister) List(options metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), options)
}

// Watch implements [toolscache.Watcher].
func (l pagedLister) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), options)
}

// ListWithContext implements [toolscache.ListerWithContext].
func (l pagedLister) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.Limit, options.Continue = listPageSize, ""
	options.ResourceVersion, options.ResourceVersionMatch = "", "" // a list of a known version has no pages
	out := &internalversion.List{}
	for {
		page, err := l.ListerWatcherWithContext.ListWithContext(ctx, options)
		if err != nil {
			return nil, err
		}
		list, err := meta.ListAccessor(page)
		if err != nil {
			return nil, fmt.Errorf("reading a page: %w", err)
		}
		err = meta.EachListItemWithAlloc(page, func(o runtime.Object) error {
			kept, err := l.transform(o)
			if err != nil {
				return err
			}
			out.Items = append(out.Items, kept.(runtime.Object))
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading the objects of a page: %w", err)
		}
		out.ResourceVersion = list.GetResourceVersion()
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return out, nil
		}
	}
}
