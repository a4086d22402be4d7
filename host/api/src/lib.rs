//! HTTP: routes, wire shapes, errors and views.
