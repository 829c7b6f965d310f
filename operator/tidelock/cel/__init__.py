"""The Common Expression Language, with the functions that Kubernetes has for selectors of devices.

An expression is parsed, checked, and compiled to nested closures. A closure takes the frame of one evaluation
and returns a value. The language and its functions are those of the API server's environment for stored
expressions in Kubernetes 1.37. Left out are constructors of protocol buffers, and the functions of
`authorizer`, which no selector of devices can reach.
"""
