/*
 * What Rust cannot call by itself: most of libfabric's calls are inline functions in its headers,
 * which go through tables of the provider. Each function here is one or a few of these calls.
 *
 * The library is opened at run time, so a program with this can start where it is not installed.
 * Functions return 0 or a number of bytes, or a negative error of libfabric. Nothing is kept here:
 * who calls sees to it that objects are closed in order, and that memory stays until they are.
 */

#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

/* The oldest interface that has all of this. */
#define TL_VERSION FI_VERSION(1, 11)

static int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
                      struct fi_info **);
static void (*freeinfo)(struct fi_info *);
static struct fi_info *(*dupinfo)(const struct fi_info *);
static int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
static const char *(*strerror_of)(int);

struct tl_domain {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
};

struct tl_queue {
    struct fid_fabric *fabric;
    struct fid_cq *cq;
    /* Readable when there may be completions; -1 if the provider has no such descriptor. */
    int descriptor;
};

struct tl_endpoint {
    struct fid_av *av;
    struct fid_ep *ep;
    fi_addr_t peer;
};

struct tl_event {
    uint64_t context;
    uint64_t bytes;
    int64_t error;
};

/* Opens the library. Returns why it cannot be, or NULL. */
const char *tl_load(const char *name)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return dlerror();
    void *found[5];
    const char *names[] = {"fi_getinfo", "fi_freeinfo", "fi_dupinfo", "fi_fabric", "fi_strerror"};
    for (int at = 0; at < 5; at++) {
        found[at] = dlsym(library, names[at]);
        if (!found[at]) {
            dlclose(library);
            return "it lacks functions of libfabric";
        }
    }
    *(void **)&getinfo = found[0];
    *(void **)&freeinfo = found[1];
    *(void **)&dupinfo = found[2];
    *(void **)&fabric = found[3];
    *(void **)&strerror_of = found[4];
    return NULL;
}

const char *tl_error(int error)
{
    return strerror_of(error);
}

void tl_domain_close(struct tl_domain *it)
{
    if (it->domain)
        fi_close(&it->domain->fid);
    if (it->fabric)
        fi_close(&it->fabric->fid);
    if (it->info)
        freeinfo(it->info);
    free(it);
}

/* Opens the first domain of a provider that can do all that is needed, at the network card of an
 * address, or at any if there is no address. */
int tl_domain_open(const char *provider, const char *source, struct tl_domain **out)
{
    struct tl_domain *it = calloc(1, sizeof *it);
    struct fi_info *hints = dupinfo(NULL);
    int error = -FI_ENOMEM;

    if (!it || !hints)
        goto failed;
    hints->caps = FI_MSG | FI_RMA | FI_ATOMIC;
    hints->ep_attr->type = FI_EP_RDM;
    /* One thread at a time uses a domain and what is open in it. */
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
    hints->fabric_attr->prov_name = strdup(provider);
    if (!hints->fabric_attr->prov_name)
        goto failed;
    error = getinfo(TL_VERSION, source, NULL, source ? FI_SOURCE | FI_NUMERICHOST : 0, hints,
                    &it->info);
    if (error)
        goto failed;
    error = fabric(it->info->fabric_attr, &it->fabric, NULL);
    if (error)
        goto failed;
    error = fi_domain(it->fabric, it->info, &it->domain, NULL);
    if (error)
        goto failed;
    freeinfo(hints);
    *out = it;
    return 0;

failed:
    if (hints)
        freeinfo(hints);
    if (it)
        tl_domain_close(it);
    return error;
}

/* Whether memory on this side has to be registered, too. */
int tl_domain_registers_own(const struct tl_domain *it)
{
    return !!(it->info->domain_attr->mr_mode & FI_MR_LOCAL);
}

/* Whether a registered byte is named by its address, and not by its offset. */
int tl_domain_names_addresses(const struct tl_domain *it)
{
    return !!(it->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR);
}

/* How many bytes a key may have that the caller chooses. */
uint64_t tl_domain_key_bytes(const struct tl_domain *it)
{
    return it->info->domain_attr->mr_key_size;
}

/* Opens a completion queue: one that can be waited at, if the provider has that and `waits`. */
int tl_queue_open(struct tl_domain *domain, uint64_t entries, int waits, struct tl_queue **out)
{
    struct fi_cq_attr attr;
    struct tl_queue *it = calloc(1, sizeof *it);
    int error = -FI_ENOSYS;

    if (!it)
        return -FI_ENOMEM;
    it->fabric = domain->fabric;
    it->descriptor = -1;
    memset(&attr, 0, sizeof attr);
    attr.size = entries;
    attr.format = FI_CQ_FORMAT_MSG;
    attr.wait_obj = FI_WAIT_FD;
    if (waits)
        error = fi_cq_open(domain->domain, &attr, &it->cq, NULL);
    if (!error && fi_control(&it->cq->fid, FI_GETWAIT, &it->descriptor)) {
        fi_close(&it->cq->fid);
        error = -FI_ENOSYS;
    }
    if (error) {
        it->descriptor = -1;
        attr.wait_obj = FI_WAIT_NONE;
        error = fi_cq_open(domain->domain, &attr, &it->cq, NULL);
    }
    if (error) {
        free(it);
        return error;
    }
    *out = it;
    return 0;
}

int tl_queue_close(struct tl_queue *it)
{
    int error = fi_close(&it->cq->fid);
    if (!error)
        free(it);
    return error;
}

/* Takes completions. Returns how many. */
int64_t tl_queue_take(struct tl_queue *it, struct tl_event *events, uint64_t most)
{
    struct fi_cq_msg_entry entries[64];
    struct fi_cq_err_entry failed;
    ssize_t got, at;

    if (most > sizeof entries / sizeof *entries)
        most = sizeof entries / sizeof *entries;
    got = fi_cq_read(it->cq, entries, most);
    if (got == -FI_EAVAIL) {
        memset(&failed, 0, sizeof failed);
        got = fi_cq_readerr(it->cq, &failed, 0);
        if (got == 1) {
            events[0].context = (uint64_t)(uintptr_t)failed.op_context;
            events[0].bytes = 0;
            events[0].error = failed.err ? failed.err : FI_EOTHER;
        }
    } else {
        for (at = 0; at < got; at++) {
            events[at].context = (uint64_t)(uintptr_t)entries[at].op_context;
            events[at].bytes = entries[at].len;
            events[at].error = 0;
        }
    }
    return got == -FI_EAGAIN ? 0 : got;
}

/* A descriptor that becomes readable when there is something to do; -1 if there is none. -2: there
 * is something now. */
int tl_queue_descriptor(struct tl_queue *it)
{
    struct fid *fid = &it->cq->fid;
    if (it->descriptor < 0)
        return -1;
    return fi_trywait(it->fabric, &fid, 1) ? -2 : it->descriptor;
}

/* Waits until one of two descriptors is readable, or the time is over. */
void tl_wait(int one, int other, int milliseconds)
{
    struct pollfd both[] = {{one, POLLIN, 0}, {other, POLLIN, 0}};
    poll(both, 2, milliseconds);
}

int tl_endpoint_close(struct tl_endpoint *it)
{
    int error = it->ep ? fi_close(&it->ep->fid) : 0;
    if (error)
        return error;
    if (it->av)
        fi_close(&it->av->fid);
    free(it);
    return 0;
}

/* Opens an endpoint for one peer, whose completions come to a queue. */
int tl_endpoint_open(struct tl_domain *domain, struct tl_queue *queue, struct tl_endpoint **out)
{
    struct fi_av_attr attr;
    struct tl_endpoint *it = calloc(1, sizeof *it);
    size_t count = 0;
    int error;

    if (!it)
        return -FI_ENOMEM;
    it->peer = FI_ADDR_UNSPEC;
    memset(&attr, 0, sizeof attr);
    attr.type = FI_AV_UNSPEC;
    attr.count = 1;
    error = fi_av_open(domain->domain, &attr, &it->av, NULL);
    if (!error)
        error = fi_endpoint(domain->domain, domain->info, &it->ep, NULL);
    if (!error)
        error = fi_ep_bind(it->ep, &it->av->fid, 0);
    if (!error)
        error = fi_ep_bind(it->ep, &queue->cq->fid, FI_TRANSMIT | FI_RECV);
    if (!error)
        error = fi_enable(it->ep);
    if (!error)
        error = fi_compare_atomicvalid(it->ep, FI_UINT64, FI_CSWAP, &count);
    if (!error)
        error = fi_fetch_atomicvalid(it->ep, FI_UINT64, FI_SUM, &count);
    if (error) {
        tl_endpoint_close(it);
        return error;
    }
    *out = it;
    return 0;
}

/* Writes the endpoint's name. Returns its length. */
int64_t tl_endpoint_name(struct tl_endpoint *it, void *name, uint64_t most)
{
    size_t length = most;
    int error = fi_getname(&it->ep->fid, name, &length);
    return error ? error : (int64_t)length;
}

/* Whom all operations go to. */
int tl_endpoint_peer(struct tl_endpoint *it, const void *name)
{
    int inserted = fi_av_insert(it->av, name, 1, &it->peer, 0, NULL);
    return inserted == 1 ? 0 : inserted < 0 ? inserted : -FI_EINVAL;
}

/* Registers memory: for the endpoint's own operations, or for its peer's. The key is that wished
 * for if the provider lets one choose. */
int tl_region_open(struct tl_domain *domain, struct tl_endpoint *endpoint, void *memory,
                   uint64_t bytes, int for_peer, uint64_t wish, struct fid_mr **out)
{
    uint64_t mode = domain->info->domain_attr->mr_mode;
    uint64_t access = for_peer ? FI_REMOTE_READ | FI_REMOTE_WRITE
                               : FI_READ | FI_WRITE | FI_SEND | FI_RECV;
    int error = fi_mr_reg(domain->domain, memory, bytes, access, 0,
                          mode & FI_MR_PROV_KEY ? 0 : wish, 0, out, NULL);
    if (error || !(mode & FI_MR_ENDPOINT))
        return error;
    error = fi_mr_bind(*out, &endpoint->ep->fid, 0);
    if (!error)
        error = fi_mr_enable(*out);
    if (error)
        fi_close(&(*out)->fid);
    return error;
}

uint64_t tl_region_key(struct fid_mr *it)
{
    return fi_mr_key(it);
}

int tl_region_close(struct fid_mr *it)
{
    return fi_close(&it->fid);
}

static void *desc_of(struct fid_mr *region)
{
    return region ? fi_mr_desc(region) : NULL;
}

/* The operations. `region` is that of the memory on this side, or NULL if it needs none. */

int64_t tl_read(struct tl_endpoint *it, uint64_t *words, uint64_t count, struct fid_mr *region,
                uint64_t at, uint64_t key, uint64_t context)
{
    return fi_read(it->ep, words, 8 * count, desc_of(region), it->peer, at, key,
                   (void *)(uintptr_t)context);
}

int64_t tl_write(struct tl_endpoint *it, const uint64_t *words, uint64_t count,
                 struct fid_mr *region, uint64_t at, uint64_t key, uint64_t context)
{
    /* By the hints, it is complete when it is in the peer's memory. */
    return fi_write(it->ep, words, 8 * count, desc_of(region), it->peer, at, key,
                    (void *)(uintptr_t)context);
}

/* words[0] is the new word, words[1] the expected, words[2] becomes the one before. */
int64_t tl_compare_exchange(struct tl_endpoint *it, uint64_t *words, struct fid_mr *region,
                            uint64_t at, uint64_t key, uint64_t context)
{
    void *desc = desc_of(region);
    return fi_compare_atomic(it->ep, &words[0], 1, desc, &words[1], desc, &words[2], desc,
                             it->peer, at, key, FI_UINT64, FI_CSWAP, (void *)(uintptr_t)context);
}

/* words[0] is added, words[2] becomes the word before. */
int64_t tl_fetch_add(struct tl_endpoint *it, uint64_t *words, struct fid_mr *region, uint64_t at,
                     uint64_t key, uint64_t context)
{
    void *desc = desc_of(region);
    return fi_fetch_atomic(it->ep, &words[0], 1, desc, &words[2], desc, it->peer, at, key,
                           FI_UINT64, FI_SUM, (void *)(uintptr_t)context);
}

int64_t tl_send(struct tl_endpoint *it, uint64_t *words, uint64_t count, struct fid_mr *region,
                uint64_t context)
{
    struct iovec part = {words, 8 * count};
    void *desc = desc_of(region);
    struct fi_msg message = {&part, &desc, 1, it->peer, (void *)(uintptr_t)context, 0};
    /* The answer tells that it has arrived. */
    return fi_sendmsg(it->ep, &message, FI_TRANSMIT_COMPLETE);
}

int64_t tl_receive(struct tl_endpoint *it, uint64_t *words, uint64_t count, struct fid_mr *region,
                   uint64_t context)
{
    return fi_recv(it->ep, words, 8 * count, desc_of(region), FI_ADDR_UNSPEC,
                   (void *)(uintptr_t)context);
}
