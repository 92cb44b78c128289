# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compiled functions that compute the local steps and updates of several agents in one call.

The results equal those of the Python methods named in the docstrings to the last bit. For this reason, the operations
on an element have the same order as in Python, and inner products call the same libraries. A test compares the results.
A function returns None if it does not support one of the agents. It has then changed no agent, and the caller runs the
Python methods instead.
"""

from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer
from libc.math cimport INFINITY, fabs, sqrt
from libc.stdint cimport int64_t
from libc.string cimport memcpy
cimport numpy as cnp

import numpy as np

from netsim.core._core cimport ArrivalQueue, BroadcastPath, Copies

from scipy.linalg import cython_blas

from netsim.agents.consensus.sharing import Sharing
from netsim.agents.costs.kernels import MultiKernelCost
from netsim.agents.costs.local import LeastSquares, Minimizer
from netsim.agents.costs.losses import Squared
from netsim.agents.costs.stream import OnlineCost
from netsim.transport.outbox import Outbox

cnp.import_array()

# The largest finite float32: `rounded` refuses states with larger elements.
cdef double LARGEST = 3.4028234663852886e38

cdef extern from "numpy/arrayobject.h":
    ctypedef void (*DotFunction "PyArray_DotFunc *")(
        void*, cnp.npy_intp, void*, cnp.npy_intp, void*, cnp.npy_intp, void*
    ) noexcept
    ctypedef struct ArrayFunctions "PyArray_ArrFuncs":
        DotFunction dotfunc
    ArrayFunctions* PyDataType_GetArrFuncs(cnp.PyArray_Descr*) noexcept

# numpy's dot and @ call this ``dotfunc`` for two vectors; another function could round differently.
cdef object _float64 = cnp.PyArray_DescrFromType(cnp.NPY_FLOAT64)
cdef DotFunction numpy_dot = PyDataType_GetArrFuncs(<cnp.PyArray_Descr*>_float64).dotfunc

ctypedef void (*SymmetricProduct)(
    char*, int*, double*, double*, int*, double*, int*, double*, double*, int*
) noexcept nogil

# scipy.linalg.blas.dsymv calls this ``dsymv``; another implementation could round differently.
cdef object _capsule = cython_blas.__pyx_capi__["dsymv"]
if not (<bytes>PyCapsule_GetName(_capsule)).startswith(b"void (char *, int *, "):
    raise ImportError(f"scipy's dsymv has another signature: {PyCapsule_GetName(_capsule)}")
cdef SymmetricProduct dsymv = <SymmetricProduct>PyCapsule_GetPointer(_capsule, PyCapsule_GetName(_capsule))


cdef inline double dot(const double* a, const double* b, int64_t n) noexcept:
    cdef double result
    numpy_dot(<void*>a, sizeof(double), <void*>b, sizeof(double), &result, n, NULL)
    return result


cdef inline double* elements(array) noexcept:
    return <double*>cnp.PyArray_DATA(array)


cdef inline bint is_plain(array) noexcept:
    """Return whether ``array`` is an ndarray, not of a subclass, whose elements are aligned, C-contiguous float64."""
    return (
        type(array) is cnp.ndarray and cnp.PyArray_TYPE(array) == cnp.NPY_FLOAT64 and cnp.PyArray_ISCARRAY_RO(array)
    )


cdef inline bint is_vector(array, int64_t n) noexcept:
    return is_plain(array) and cnp.PyArray_NDIM(array) == 1 and cnp.PyArray_DIM(array, 0) == n


cdef inline object new_vector(int64_t n):
    cdef cnp.npy_intp shape[1]
    shape[0] = n
    return cnp.PyArray_EMPTY(1, shape, cnp.NPY_FLOAT64, 0)


cdef inline object new_like(array):
    return cnp.PyArray_EMPTY(cnp.PyArray_NDIM(array), cnp.PyArray_DIMS(array), cnp.NPY_FLOAT64, 0)


cdef object copied(array):
    if not is_plain(array):
        return array.copy()
    copy = new_like(array)
    memcpy(elements(copy), elements(array), cnp.PyArray_NBYTES(array))
    return copy


cdef struct State:
    # The inputs of an agent's step. The pointers refer to the data of arrays that the agent's attributes hold.
    int64_t n, degree
    const double* theta
    const double* dual
    const double* own
    const double* others
    double rho, eta, own_weight
    # The sample from which the step learns (φ, target, prediction), and the cost's regularizer λ/N.
    const double* phi
    double target, prediction, regularizer


cdef Copies copies_of(dict own):
    """Return the copies of the neighbours' states from the attributes ``own`` of an agent.

    Return None unless the agent uses `Sharing` itself, not a subclass, and the compiled class of copies.
    """
    sharing = own.get("sharing")
    if type(sharing) is not Sharing:
        return None
    copies = sharing.copies
    return <Copies>copies if isinstance(copies, Copies) else None


cdef bint read_number(dict own, str name, double* number) except -1:
    """Read the current value of a parameter that may have a schedule; return False if the value is no float."""
    value = own.get(name)
    if not PyFloat_Check(value):
        return False
    number[0] = PyFloat_AS_DOUBLE(value)
    return True


cdef bint read_dual(dict own, State* state) except -1:
    """Read the inputs of an ADMM step from an agent's attributes; return False if one has an unsupported type."""
    sharing = own.get("sharing")
    if sharing is None:
        return False
    theta, dual, own_sum, others_sum = own["theta"], own["dual"], own["_own_sum"], own["_others_sum"]
    cdef int64_t n = cnp.PyArray_SIZE(theta) if is_plain(theta) else -1
    state.n = n
    if not (is_vector(theta, n) and is_vector(dual, n) and is_vector(own_sum, n) and is_vector(others_sum, n)):
        return False
    state.theta, state.dual = elements(theta), elements(dual)
    state.own, state.others = elements(own_sum), elements(others_sum)
    state.degree = len(sharing._agent.neighbors)
    return read_number(own, "_rho", &state.rho)


cdef inline double pull_to_sum(const State* s, int64_t j) noexcept:
    return s.dual[j] + -s.rho * (s.own[j] + s.others[j])


def quadratic_steps(list agents):
    """Return the new states of agents as `DKLA.local_step` does, for least-squares costs."""
    cdef State s
    cdef int n, one = 1
    cdef char upper = b"U"
    cdef double minus = -1.0, plus = 1.0
    cdef int64_t j
    cdef list states = []
    linear = None
    cdef dict own
    for agent in agents:
        own = agent.__dict__
        if not read_dual(own, &s) or s.rho * s.degree != <double>own["_quadratic"]:
            return None
        solver = own["_argmin"]
        if type(solver) is not Minimizer:
            return None
        inverse, constant = solver.inverse, solver.constant
        n = <int>s.n
        if not is_vector(constant, n):
            return None
        if linear is None or cnp.PyArray_DIM(linear, 0) != n:
            linear = new_vector(n)
        for j in range(n):
            elements(linear)[j] = pull_to_sum(&s, j)
        theta = new_vector(n)
        memcpy(elements(theta), elements(constant), n * sizeof(double))
        dsymv(&upper, &n, &minus, elements(inverse), &n, elements(linear), &one, &plus, elements(theta), &one)
        states.append(theta)
    return states


# --- streams ----------------------------------------------------------------------------------------------------------

cdef bint look_ahead(agent) except -1:
    """Let an agent's cost read its next sample; return whether the compiled steps support the cost and the sample.

    They support an `OnlineCost` with the squared loss, and samples (φ, y) with a float y.
    """
    cost = agent.cost
    if type(cost) is not OnlineCost:
        return False
    cdef dict own = cost.__dict__
    if type(own["loss"]) is not Squared:
        return False
    ahead = own["_ahead"]
    if ahead is None:
        cost.look_ahead()
        ahead = own["_ahead"]
    if type(ahead) is not tuple or len(<tuple>ahead) != 2:
        return False
    return PyFloat_Check((<tuple>ahead)[1])


cdef bint read_sample(dict own, State* state) except -1:
    """Read the sample that `look_ahead` stored in the cost; return whether its φ has the length of the state."""
    cdef dict cost = own["cost"].__dict__
    phi, target = <tuple>cost["_ahead"]
    if not is_vector(phi, state.n):
        return False
    state.phi, state.target = elements(phi), PyFloat_AS_DOUBLE(target)
    state.regularizer = cost["regularizer"]
    return True


cdef int draw(dict own, State* s) except -1:
    """Predict the target of the sample that `look_ahead` stored, and record the loss, as `StreamCost.draw` does."""
    cdef dict cost = own["cost"].__dict__
    cost["features"], cost["target"] = <tuple>cost["_ahead"]
    cost["_ahead"] = None
    s.prediction = dot(s.phi, s.theta, s.n)
    cdef double error = s.prediction - s.target
    cost["squared_error"] = <double>cost["squared_error"] + error * error
    cost["count"] = <int64_t>cost["count"] + 1
    cost["loss_sum"] = <double>cost["loss_sum"] + (error * error + s.regularizer * dot(s.theta, s.theta, s.n))
    return 0


ctypedef bint (*Read)(dict, State*) except -1
ctypedef object (*Step)(dict, const State*)


cdef list steps(list agents, Read read, Step step):
    """Let each agent draw a sample and take a step; return the new states, or None if one agent is not supported."""
    cdef int64_t i, count = len(agents)
    cdef list states = []
    cdef dict own
    cdef State* all_of_them
    for agent in agents:
        # Read all samples before taking pointers to arrays: the iterator of samples is user code, which may replace
        # the arrays of any agent.
        if not look_ahead(agent):
            return None
    all_of_them = <State*>PyMem_Malloc(max(count, 1) * sizeof(State))
    if all_of_them == NULL:
        raise MemoryError
    try:
        for i in range(count):
            own = agents[i].__dict__
            if not (read(own, &all_of_them[i]) and read_sample(own, &all_of_them[i])):
                return None
        for i in range(count):
            own = agents[i].__dict__
            draw(own, &all_of_them[i])
            states.append(step(own, &all_of_them[i]))
    finally:
        PyMem_Free(all_of_them)
    return states


cdef bint read_linearised(dict own, State* state) except -1:
    if not read_dual(own, state):
        return False
    return read_number(own, "_eta", &state.eta)


cdef object linearised_step(dict own, const State* s):
    cdef double slope = 2.0 * (s.prediction - s.target), twice = 2.0 * s.regularizer
    cdef double weight = s.eta + 2.0 * s.rho * s.degree
    cdef int64_t j
    theta = new_vector(s.n)
    cdef double* to = elements(theta)
    for j in range(s.n):
        to[j] = s.theta[j] - (
            (slope * s.phi[j] + twice * s.theta[j]) + (s.dual[j] + s.rho * (s.own[j] - s.others[j]))
        ) / weight
    return theta


def linearised_steps(list agents):
    """Return the new states of agents as `ODKLA.local_step` does, for squared losses of scalar targets."""
    return steps(agents, read_linearised, linearised_step)


cdef inline object proximal(const State* s, double quadratic, linear):
    """Compute the minimum as `OnlineCost.argmin` does, store it in the array ``linear``, and return this array."""
    cdef double* to = elements(linear)
    cdef double double_ = 2.0 * (s.regularizer + quadratic)
    cdef double f = -dot(to, s.phi, s.n) / double_, k = dot(s.phi, s.phi, s.n) / double_
    cdef double slope = 2.0 * (f - s.target) / (1.0 + 2.0 * k)
    cdef int64_t j
    for j in range(s.n):
        to[j] = (to[j] + slope * s.phi[j]) / -double_
    return linear


cdef bint read_proximal(dict own, State* state) except -1:
    # For an agent without neighbours the local problem may have no unique minimum, and only the Python code raises an
    # error for this. The result False makes all agents take their steps in Python.
    return own["solve"] == "rank-one" and read_linearised(own, state) and state.degree > 0


cdef object proximal_step(dict own, const State* s):
    cdef int64_t j
    linear = new_vector(s.n)
    cdef double* to = elements(linear)
    for j in range(s.n):
        to[j] = pull_to_sum(s, j) - s.eta * s.theta[j]
    return proximal(s, s.eta / 2.0 + s.rho * s.degree, linear)


def proximal_steps(list agents):
    """Return the new states of agents as `DOKL.local_step` does, for squared losses of scalar targets."""
    return steps(agents, read_proximal, proximal_step)


cdef bint read_dynamic(dict own, State* state) except -1:
    return read_dual(own, state) and state.degree > 0


cdef object dynamic_step(dict own, const State* s):
    cdef int64_t j
    linear = new_vector(s.n)
    cdef double* to = elements(linear)
    for j in range(s.n):
        to[j] = pull_to_sum(s, j)
    return proximal(s, s.rho * s.degree, linear)


def dynamic_steps(list agents):
    """Return the new states of agents as `DDKL.local_step` does, for squared losses of scalar targets."""
    return steps(agents, read_dynamic, dynamic_step)


# --- diffusion --------------------------------------------------------------------------------------------------------

cdef bint read_diffusion(dict own, State* state) except -1:
    """Read the inputs of a diffusion step; return False if one is missing or has an unsupported type.

    The weights are read from the cache that `Sharing.add_known` fills once a frame from each neighbour has arrived.
    """
    cdef Copies copies = copies_of(own)
    theta = own["theta"]
    state.n = cnp.PyArray_SIZE(theta) if is_plain(theta) else -1
    if copies is None or copies.width != state.n or not is_vector(theta, state.n):
        return False
    known = own["sharing"]._weights
    if known is None or not is_vector(known[0], copies.rows) or known[1] == 0.0:
        return False
    state.theta = elements(theta)
    state.own_weight = own["weights"][own["sharing"]._agent.name]
    return read_number(own, "_eta", &state.eta)


cdef object combined(dict own, const State* s):
    """Return ψ_i, as `Diffusion.combined` does."""
    cdef Copies copies = copies_of(own)
    cdef double weight, total
    cdef int64_t i, j
    cdef const double* row = copies.data
    weights, total = own["sharing"]._weights
    psi = new_vector(s.n)
    cdef double* to = elements(psi)
    for j in range(s.n):
        to[j] = s.own_weight * s.theta[j]
    for i in range(copies.rows):
        weight = elements(weights)[i]
        for j in range(s.n):
            to[j] += weight * row[j]
        row += s.n
    for j in range(s.n):
        to[j] /= total
    return psi


cdef object diffusion_step(dict own, const State* s):
    psi = combined(own, s)
    cdef double* to = elements(psi)
    cdef double slope = 2.0 * (dot(s.phi, to, s.n) - s.target), twice = 2.0 * s.regularizer
    cdef int64_t j
    for j in range(s.n):
        to[j] = to[j] - s.eta * (slope * s.phi[j] + twice * to[j])
    return psi


def diffusion_steps(list agents):
    """Return the new states of agents as `RFFDOKL.local_step` does, for squared losses of scalar targets."""
    return steps(agents, read_diffusion, diffusion_step)


def gradient_steps(list agents):
    """Return the new states of agents as `CTA.local_step` does, for least-squares costs."""
    cdef State s
    cdef int64_t j
    cdef double* to
    cdef dict own
    cdef list states = []
    for agent in agents:
        own = agent.__dict__
        cost = own["cost"]
        if type(cost) is not LeastSquares or not read_diffusion(own, &s) or not is_vector(cost.linear, s.n):
            return None
        theta = combined(own, &s)
        product = cost.hessian @ theta
        if not is_vector(product, s.n):
            return None
        to = elements(theta)
        for j in range(s.n):
            to[j] = to[j] - s.eta * (elements(product)[j] - elements(cost.linear)[j])
        states.append(theta)
    return states


# --- many kernels -----------------------------------------------------------------------------------------------------

def table(list arrays):
    """Stack arrays along a new first axis; return None unless `is_plain` accepts all, and their shapes are equal."""
    cdef cnp.npy_intp shape[3]
    cdef int64_t size
    cdef int axis, axes
    cdef double* to
    first = arrays[0]
    if not is_plain(first) or cnp.PyArray_NDIM(first) > 2:
        return None
    axes, size = cnp.PyArray_NDIM(first), cnp.PyArray_SIZE(first)
    shape[0] = len(arrays)
    for axis in range(axes):
        shape[axis + 1] = cnp.PyArray_DIM(first, axis)
    rows = cnp.PyArray_EMPTY(axes + 1, shape, cnp.NPY_FLOAT64, 0)
    to = elements(rows)
    for array in arrays:
        if not (is_plain(array) and cnp.PyArray_SAMESHAPE(array, first)):
            return None
        memcpy(to, elements(array), size * sizeof(double))
        to += size
    return rows


def samples(list costs, bint is_ahead):
    """Return one sample (z, y) of each multi-kernel cost, as two arrays; None if a type is not supported.

    The sample is the cost's next one if ``is_ahead``, and otherwise the last one drawn.
    """
    cdef list features = [], targets = []
    cdef dict own
    # Two agents with the same cost object need two samples, but `look_ahead` stores only one in a cost.
    if len(set(costs)) < len(costs):
        return None
    for cost in costs:
        combined = cost.combined if type(cost) is MultiKernelCost else None
        if type(combined) is not OnlineCost:
            return None
        if is_ahead:
            combined.look_ahead()
        own = combined.__dict__
        sample = own["_ahead"] if is_ahead else (own.get("features"), own.get("target"))
        if type(sample) is not tuple or len(<tuple>sample) != 2 or not PyFloat_Check((<tuple>sample)[1]):
            return None
        features.append((<tuple>sample)[0])
        targets.append((<tuple>sample)[1])
    z = table(features)
    return None if z is None else (z, np.array(targets))


def gossiped(list agents):
    """Return θ'_p + γ Σ_n w'_in (h_n − h_i) for each agent, as `GossipOMKL.local_step` computes it."""
    cdef Copies copies
    cdef double gamma, total, weight
    cdef double* to
    cdef const double* row
    cdef const double* hidden
    cdef const double* model
    cdef int64_t i, j, n
    cdef dict its
    cdef list states = []
    for agent in agents:
        its = agent.__dict__
        copies = copies_of(its)
        if copies is None or not read_number(its, "_gamma", &gamma):
            return None
        known, own, before = its["sharing"]._weights, its["sharing"].own, its["model"]
        if known is None or not (is_plain(own) and is_plain(before) and cnp.PyArray_SAMESHAPE(own, before)):
            return None
        n = cnp.PyArray_SIZE(own)
        if copies.width != n or not is_vector(known[0], copies.rows):
            return None
        state, weights, total = new_like(own), known[0], known[1]
        to, row, hidden, model = elements(state), copies.data, elements(own), elements(before)
        for j in range(n):
            to[j] = 0.0
        for i in range(copies.rows):
            weight = elements(weights)[i]
            for j in range(n):
                to[j] += weight * row[j]
            row += n
        for j in range(n):
            to[j] = model[j] + gamma * (to[j] - total * hidden[j])
        states.append(state)
    return states


# --- broadcasts and received frames -----------------------------------------------------------------------------------

def are_as_seen(list agents, tuple seen, list sharings):
    """Return whether no agent's class, number of attributes or `Sharing` object has changed since the last check.

    ``seen`` begins with two lists from that check: the agents' classes, and their numbers of attributes.
    """
    cdef Py_ssize_t i
    cdef dict own
    cdef list kinds = seen[0], sizes = seen[1]
    if not len(agents) == len(kinds) == len(sharings):
        return False
    for i in range(len(agents)):
        own = agents[i].__dict__
        if type(agents[i]) is not kinds[i] or len(own) != <Py_ssize_t>sizes[i] or own.get("sharing") is not sharings[i]:
            return False
    return True


def take(list agents, list states):
    """Set the agents' states in order. Stop at a state of the wrong shape and return its index; return -1 if none."""
    cdef Py_ssize_t i
    for i in range(len(agents)):
        agent, state = agents[i], states[i]
        theta = agent.theta
        if not (is_plain(theta) and is_plain(state) and cnp.PyArray_SAMESHAPE(theta, state)):
            if getattr(state, "shape", None) != theta.shape:
                return i
        agent.theta = state
    return -1


def broadcast(list sharings, list outboxes, list states, coded, list speaking, int64_t k, failed):
    """Broadcast the states of the agents for which ``speaking`` is True, as `Sharing.say` and `Sharing._said` do.

    ``coded`` lists (payload, state decoded from it) for each agent. If ``coded`` is None, states are sent unencoded.
    """
    cdef Py_ssize_t i
    cdef Copies copies
    shared = outboxes[0]._shared
    now, rounds = shared.loop.now(), shared.rounds
    cdef double deadline = rounds.open_deadline
    cdef bint is_open = k == rounds.open_round and now < deadline and not shared.looks
    for i in range(len(sharings)):
        if not speaking[i]:
            continue
        sharing, known = sharings[i], states[i]
        sent = known
        if coded is not None:
            sent, known = coded[i]
        try:
            taken = offer(outboxes[i], is_open, now, sharing._kind, k, sent, deadline)
        except Exception as error:
            failed(i, error)
            continue
        copies = sharing.copies
        if taken or copies.rows == 0:
            sharing.own = copied(known) if coded is None else known
            sharing.spoken = sharing.spoken + 1


cdef object offer(outbox, bint is_open, now, str kind, int64_t k, payload, double deadline):
    """Broadcast a payload as `Outbox.broadcast` does, but call the outbox's fast path directly where possible."""
    number = outbox.kinds.get(kind)
    if not (is_open and type(outbox) is Outbox and outbox._uses_fast_path) or outbox.subscribers or number is None:
        return outbox.broadcast(kind, payload, k, False)
    if outbox._last_send_time == now:
        return outbox.broadcast(kind, payload, k, False)
    outbox._last_send_time, outbox._sends_this_instant = now, 1
    return (<BroadcastPath?>outbox._broadcast_path).broadcast(now, number, kind, k, payload, False, deadline)


def hear(list inboxes, list sharings, double until, bint adds, failed):
    """Apply received frames to the copies, as `Inbox.take_into` does; return the indices of the error-free agents."""
    cdef ArrivalQueue arrivals
    cdef Copies copies
    cdef Py_ssize_t i
    cdef list heard = []
    for i in range(len(inboxes)):
        inbox, copies = inboxes[i], sharings[i].copies
        arrivals = inbox.arrivals
        try:
            if arrivals.careful or inbox._ready or not arrivals.up or inbox._limit != INFINITY:
                inbox.take_into(copies, until, adds)
            else:
                copies.receive(arrivals, until, add=adds)
            heard.append(i)
        except Exception as error:
            failed(i, error)
    return heard


def exceed(list states, list sharings, double limit, bint squared):
    """Return for each agent whether ‖θ_i − θ̂_i‖, or its square, is at least ``limit``, as `Geometric.speaks` does."""
    cdef list found = []
    cdef const double* a
    cdef const double* b
    cdef double* to
    cdef double square
    cdef int64_t j, n
    cdef Py_ssize_t i
    change = None
    for i in range(len(states)):
        state, own = states[i], sharings[i].own
        if not (is_plain(state) and is_plain(own) and cnp.PyArray_SAMESHAPE(state, own)):
            return None
        n = cnp.PyArray_SIZE(state)
        if change is None or cnp.PyArray_SIZE(change) != n:
            change = new_vector(n)
        a, b, to = elements(state), elements(own), elements(change)
        for j in range(n):
            to[j] = a[j] - b[j]
        square = dot(to, to, n)
        found.append((square if squared else sqrt(square)) >= limit)
    return found


def rounded(states):
    """Return for each state the float32 array that `Float` sends, and the state decoded from it.

    Return None if an element overflows.
    """
    cdef list found = []
    cdef const double* from_
    cdef float* to
    cdef double* back
    cdef int64_t j
    cdef bint fits = True
    for state in states:
        if not is_plain(state):
            return None
        single = cnp.PyArray_EMPTY(cnp.PyArray_NDIM(state), cnp.PyArray_DIMS(state), cnp.NPY_FLOAT32, 0)
        decoded = new_like(state)
        from_, to, back = elements(state), <float*>cnp.PyArray_DATA(single), elements(decoded)
        for j in range(cnp.PyArray_SIZE(state)):
            # The comparison is False for a NaN, too. The function then returns None, and `Float` handles the NaN.
            fits &= fabs(from_[j]) <= LARGEST
            to[j] = <float>from_[j]
            back[j] = to[j]
        if not fits:
            return None
        found.append((single, decoded))
    return found


def update_duals(list agents):
    """Update the duals as `Dual.after_sharing` does; for an unsupported agent, call its `after_sharing`."""
    cdef Copies copies
    cdef int64_t j, n
    cdef double rho, degree
    cdef double* o
    cdef double* g
    cdef const double* known
    cdef const double* t
    cdef const double* before
    cdef dict its
    for agent in agents:
        its = agent.__dict__
        copies = copies_of(its)
        own, dual = (None, None) if copies is None else (its["sharing"].own, its["dual"])
        fits = is_plain(own) and is_plain(dual) and cnp.PyArray_SAMESHAPE(own, dual)
        fits = fits and copies.rows and copies.width == cnp.PyArray_SIZE(own) and read_number(its, "_rho", &rho)
        if not fits:
            agent.after_sharing()
            continue
        n, degree = cnp.PyArray_SIZE(own), <double>copies.rows
        own_sum, others_sum, new_dual = new_like(own), copies.sum(), new_like(own)
        known, o, t, g = elements(own), elements(own_sum), elements(others_sum), elements(new_dual)
        before = elements(dual)
        for j in range(n):
            o[j] = degree * known[j]
            g[j] = before[j] + rho * (o[j] - t[j])
        its["_own_sum"], its["_others_sum"], its["dual"] = own_sum, others_sum, new_dual
    return True
