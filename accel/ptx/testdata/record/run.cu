// Records what a GPU computes for single PTX instructions: see README.md.
//
//   vec FORMS INPUTS OUT REFUSED [seconds [processes [forms a module]]]
//
// The parent never calls CUDA. Child processes take groups of forms from a queue in shared memory, build one
// module for each group, and put results and errors into shared memory. When a child dies or hangs, those
// forms of its group that are not done are tried again, each alone. The parent writes the files every few
// seconds and at the end.
#include <cuda.h>

#include <atomic>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

const int MAXROWS = 128;

struct Operand {
    std::string type;
    int width;       // 1 is a predicate
    uint32_t table;  // index of the table of inputs
};

struct Form {
    std::string name, dst, src, text;
    std::vector<Operand> in;
    std::vector<int> out;
};

struct Table {
    char name[8];
    std::vector<uint64_t> v;  // four columns
};

enum State : uint32_t { TODO = 0, DONE = 1, REFUSED = 2, CRASHED = 3 };

struct Slot {
    std::atomic<uint32_t> state;
    char error[244];
    uint64_t out[2][MAXROWS];
};

struct Group {
    uint32_t first, count;
};

struct Worker {
    std::atomic<int32_t> group;      // the group in work, or -1
    std::atomic<int64_t> since;      // milliseconds at its start
};

struct Shared {
    std::atomic<uint32_t> head, tail, modules, launches;
    char device[200];
    Worker worker[64];
    Group queue[1 << 16];
};

std::vector<Form> forms;
std::vector<Table> tables;
uint32_t rows;
Shared *sh;
Slot *slots;

int64_t now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return int64_t(t.tv_sec) * 1000 + t.tv_nsec / 1000000;
}

std::vector<std::string> split(const std::string &s, char c) {
    std::vector<std::string> r;
    std::stringstream in(s);
    std::string f;
    while (std::getline(in, f, c)) {
        r.push_back(f);
    }
    return r;
}

// The width of the register for a type: those of 8 bits live in registers of 32 bits.
int widthof(const std::string &t) {
    static const std::map<std::string, int> special = {
        {"pred", 1},   {"u8", 32},      {"s8", 32},     {"bf16", 16},   {"f16x2", 32}, {"bf16x2", 32},
        {"u16x2", 32}, {"s16x2", 32},   {"e4m3x2", 16}, {"e5m2x2", 16}, {"tf32", 32}};
    auto i = special.find(t);
    return i != special.end() ? i->second : atoi(t.c_str() + 1);
}

bool readForms(const char *file) {
    std::ifstream in(file);
    std::string line;
    while (std::getline(in, line)) {
        auto f = split(line, '\t');
        if (f.size() != 4) {
            fprintf(stderr, "vec: not a form: %s\n", line.c_str());
            continue;
        }
        Form x{f[0], f[1], f[2], f[3], {}, {}};
        bool ok = true;
        for (auto &s : split(f[2], ',')) {
            auto p = split(s, ':');
            Operand o{p[0], widthof(p[0]), 0};
            bool found = false;
            for (uint32_t t = 0; p.size() == 2 && t < tables.size(); t++) {
                if (strncmp(tables[t].name, p[1].c_str(), 8) == 0) {
                    o.table = t;
                    found = true;
                }
            }
            ok = ok && found;
            x.in.push_back(o);
        }
        for (auto &s : split(f[1], ',')) {
            x.out.push_back(widthof(s));
        }
        if (!ok || x.in.size() > 4 || x.out.empty() || x.out.size() > 2) {
            fprintf(stderr, "vec: form left out: %s\n", line.c_str());
            continue;
        }
        forms.push_back(x);
    }
    return !forms.empty();
}

bool readTables(const char *file) {
    FILE *f = fopen(file, "rb");
    char magic[8];
    uint32_t n = 0;
    if (!f || fread(magic, 8, 1, f) != 1 || memcmp(magic, "PTXVIN1\n", 8) != 0 || fread(&n, 4, 1, f) != 1 ||
        fread(&rows, 4, 1, f) != 1 || rows > MAXROWS || n > 1000) {
        return false;
    }
    tables.resize(n);
    for (auto &t : tables) {
        t.v.resize(4 * rows);
        if (fread(t.name, 8, 1, f) != 1 || fread(t.v.data(), 8, 4 * rows, f) != 4 * rows) {
            return false;
        }
    }
    fclose(f);
    return true;
}

std::string reg(int width) {
    return width == 1 ? ".reg .pred " : ".reg .b" + std::to_string(width) + " ";
}

// The text of one kernel.
std::string kernel(const Form &f, uint32_t index) {
    static const char *regs[4] = {"%xa", "%xb", "%xc", "%xd"};
    std::stringstream s;
    s << "// form " << f.name << "\n";
    s << ".visible .entry k" << index << "(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd,"
      << " .param .u64 po, .param .u32 pn)\n{\n";
    s << ".reg .pred %z0;\n.reg .b32 %z1, %z2;\n.reg .b64 %z3, %z4, %z5;\n";
    for (size_t i = 0; i < f.in.size(); i++) {
        s << reg(f.in[i].width) << regs[i] << ";\n";
    }
    for (size_t i = 0; i < f.out.size(); i++) {
        s << reg(f.out[i]) << "%y" << i << ";\n";
    }
    s << "mov.u32 %z1, %tid.x;\nld.param.u32 %z2, [pn];\nsetp.ge.u32 %z0, %z1, %z2;\n@%z0 bra Lend;\n"
      << "mul.wide.u32 %z3, %z1, 8;\n";
    for (size_t i = 0; i < f.in.size(); i++) {
        s << "ld.param.u64 %z4, [p" << "abcd"[i] << "];\nadd.s64 %z4, %z4, %z3;\nld.global.u64 %z5, [%z4];\n";
        switch (f.in[i].width) {
        case 1:
            s << "and.b64 %z5, %z5, 1;\nsetp.ne.u64 " << regs[i] << ", %z5, 0;\n";
            break;
        case 64:
            s << "mov.b64 " << regs[i] << ", %z5;\n";
            break;
        default:
            s << "cvt.u" << f.in[i].width << ".u64 " << regs[i] << ", %z5;\n";
        }
    }
    for (size_t i = 0; i < f.text.size(); i++) {
        char c = i + 1 < f.text.size() && f.text[i] == '$' ? f.text[i + 1] : 0;
        if (c >= 'a' && c <= 'd') {
            s << regs[c - 'a'];
            i++;
        } else if (c == '0' || c == '1') {
            s << "%y" << c;
            i++;
        } else {
            s << f.text[i];
        }
    }
    s << "\nld.param.u64 %z4, [po];\nadd.s64 %z4, %z4, %z3;\n";
    for (size_t i = 0; i < f.out.size(); i++) {
        switch (f.out[i]) {
        case 1:
            s << "selp.u64 %z5, 1, 0, %y" << i << ";\n";
            break;
        case 64:
            s << "mov.b64 %z5, %y" << i << ";\n";
            break;
        default:
            s << "cvt.u64.u" << f.out[i] << " %z5, %y" << i << ";\n";
        }
        s << "st.global.u64 [%z4+" << i * MAXROWS * 8 << "], %z5;\n";
    }
    s << "Lend:\nret;\n}\n";
    return s.str();
}

std::string clean(std::string s) {
    for (char &c : s) {
        if ((unsigned char)c < 32 || (unsigned char)c > 126) {
            c = ' ';
        }
    }
    while (!s.empty() && s.back() == ' ') {
        s.pop_back();
    }
    return s;
}

void settle(uint32_t form, State state, const std::string &error) {
    Slot &s = slots[form];
    snprintf(s.error, sizeof s.error, "%s", clean(error).c_str());
    s.state.store(state);
}

std::string cuError(const char *what, CUresult r) {
    const char *n = nullptr;
    cuGetErrorName(r, &n);
    return std::string(what) + ": " + (n ? n : "error") + " (" + std::to_string(int(r)) + ")";
}

const char *version = "8.6";

// Loads a module of the forms; on failure *log holds the JIT's errors. Start: the first line of each kernel.
CUresult load(const std::vector<uint32_t> &which, CUmodule *mod, std::string *log, std::vector<int> *start) {
    std::string text = std::string(".version ") + version + "\n.target sm_90\n.address_size 64\n";
    int line = 4;
    start->clear();
    for (uint32_t i : which) {
        std::string k = kernel(forms[i], i);
        start->push_back(line);
        for (char c : k) {
            line += c == '\n';
        }
        text += k;
    }
    std::vector<char> buf(1 << 17, 0);
    CUjit_option opts[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *vals[] = {buf.data(), (void *)(uintptr_t)(buf.size() - 1)};
    CUresult r = cuModuleLoadDataEx(mod, text.c_str(), 2, opts, vals);
    *log = buf.data();
    sh->modules++;
    return r;
}

std::string firstError(const std::string &log) {
    auto lines = split(log, '\n');
    for (auto &l : lines) {
        if (l.find("error") != std::string::npos || l.find("fatal") != std::string::npos) {
            return l;
        }
    }
    return lines.empty() ? "" : lines[0];
}

struct Device {
    std::vector<CUdeviceptr> tables;
    CUdeviceptr out = 0;
    size_t room = 0;  // forms for which out has room
};

// Runs a loaded module. False: the context may be lost.
bool execute(Device &dev, CUmodule mod, const std::vector<uint32_t> &which) {
    const size_t each = 2 * MAXROWS * 8;
    std::vector<uint32_t> ran;
    std::vector<uint64_t> host(which.size() * 2 * MAXROWS);
    CUresult r = cuMemsetD8(dev.out, 0xee, which.size() * each);
    if (r != CUDA_SUCCESS) {
        fprintf(stderr, "vec: %s\n", cuError("memset", r).c_str());
        return false;
    }
    for (size_t k = 0; k < which.size(); k++) {
        const Form &f = forms[which[k]];
        CUfunction fn;
        r = cuModuleGetFunction(&fn, mod, ("k" + std::to_string(which[k])).c_str());
        if (r != CUDA_SUCCESS) {
            settle(which[k], REFUSED, cuError("function", r));
            continue;
        }
        CUdeviceptr p[4] = {}, out = dev.out + k * each;
        for (size_t i = 0; i < f.in.size(); i++) {
            p[i] = dev.tables[f.in[i].table] + i * rows * 8;
        }
        uint32_t n = rows;
        void *args[] = {&p[0], &p[1], &p[2], &p[3], &out, &n};
        r = cuLaunchKernel(fn, 1, 1, 1, MAXROWS, 1, 1, 0, nullptr, args, nullptr);
        if (r != CUDA_SUCCESS) {
            settle(which[k], REFUSED, cuError("launch", r));
            continue;
        }
        sh->launches++;
        ran.push_back(k);
    }
    r = cuCtxSynchronize();
    if (r == CUDA_SUCCESS) {
        r = cuMemcpyDtoH(host.data(), dev.out, which.size() * each);
    }
    if (r != CUDA_SUCCESS) {
        fprintf(stderr, "vec: group of %s: %s\n", forms[which[0]].name.c_str(), cuError("run", r).c_str());
        if (which.size() == 1) {
            settle(which[0], CRASHED, cuError("run", r));
        }
        return false;
    }
    for (uint32_t k : ran) {
        Slot &s = slots[which[k]];
        memcpy(s.out, &host[k * 2 * MAXROWS], each);
        s.state.store(DONE);
    }
    return true;
}

// Does a list of forms: loads them together, drops those with errors, halves the list where no line is named.
bool work(Device &dev, std::vector<uint32_t> which) {
    while (!which.empty()) {
        CUmodule mod = nullptr;
        std::string log;
        std::vector<int> start;
        CUresult r = load(which, &mod, &log, &start);
        if (r == CUDA_SUCCESS) {
            bool ok = execute(dev, mod, which);
            if (ok) {
                cuModuleUnload(mod);
            }
            return ok;
        }
        if (which.size() == 1) {
            std::string e = firstError(log);
            settle(which[0], REFUSED, e.empty() ? cuError("load", r) : e);
            return true;
        }
        std::map<size_t, std::string> bad;
        for (auto &l : split(log, '\n')) {
            size_t at = l.find("line ");
            if (at == std::string::npos || !isdigit((unsigned char)l[at + 5]) ||
                (l.find("error") == std::string::npos && l.find("fatal") == std::string::npos)) {
                continue;
            }
            int n = atoi(l.c_str() + at + 5);
            size_t k = 0;
            while (k + 1 < start.size() && start[k + 1] <= n) {
                k++;
            }
            if (n >= start[0]) {
                bad.emplace(k, l);
            }
        }
        if (bad.empty()) {
            std::vector<uint32_t> half(which.begin(), which.begin() + which.size() / 2);
            which.erase(which.begin(), which.begin() + which.size() / 2);
            if (!work(dev, half)) {
                return false;
            }
            continue;
        }
        std::vector<uint32_t> rest;
        for (size_t k = 0; k < which.size(); k++) {
            if (bad.count(k)) {
                settle(which[k], REFUSED, bad[k]);
            } else {
                rest.push_back(which[k]);
            }
        }
        which = rest;
    }
    return true;
}

#define TRY(call)                                                                  \
    do {                                                                           \
        CUresult r_ = (call);                                                      \
        if (r_ != CUDA_SUCCESS) {                                                  \
            fprintf(stderr, "vec: %s\n", cuError(#call, r_).c_str());              \
            _exit(3);                                                              \
        }                                                                          \
    } while (0)

// A child process: exits with 0 when the queue is empty.
void child(Worker &me, uint32_t biggest) {
    setenv("CUDA_CACHE_DISABLE", "1", 1);
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    CUdevice d;
    CUcontext ctx;
    TRY(cuInit(0));
    TRY(cuDeviceGet(&d, 0));
    TRY(cuDevicePrimaryCtxRetain(&ctx, d));
    TRY(cuCtxSetCurrent(ctx));
    int drv = 0, major = 0, minor = 0;
    char name[100] = "";
    cuDriverGetVersion(&drv);
    cuDeviceGetName(name, sizeof name, d);
    cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d);
    cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d);
    snprintf(sh->device, sizeof sh->device, "%s, compute capability %d.%d, driver API %d, PTX %s", name,
             major, minor, drv, version);
    Device dev;
    for (auto &t : tables) {
        CUdeviceptr p;
        TRY(cuMemAlloc(&p, t.v.size() * 8));
        TRY(cuMemcpyHtoD(p, t.v.data(), t.v.size() * 8));
        dev.tables.push_back(p);
    }
    TRY(cuMemAlloc(&dev.out, size_t(biggest) * 2 * MAXROWS * 8));
    for (;;) {
        uint32_t h = sh->head.load();
        if (h >= sh->tail.load()) {
            break;
        }
        if (!sh->head.compare_exchange_strong(h, h + 1)) {
            continue;
        }
        me.since.store(now());
        me.group.store(int32_t(h));
        std::vector<uint32_t> which;
        for (uint32_t i = 0; i < sh->queue[h].count; i++) {
            if (slots[sh->queue[h].first + i].state.load() == TODO) {
                which.push_back(sh->queue[h].first + i);
            }
        }
        if (!work(dev, which)) {
            _exit(4);  // the parent queues what is not done again
        }
        me.group.store(-1);
    }
    _exit(0);
}

void put(FILE *f, const std::string &s) {
    uint16_t n = uint16_t(s.size());
    fwrite(&n, 2, 1, f);
    fwrite(s.data(), 1, n, f);
}

// Writes both files anew from what is done so far.
void save(const char *out, const char *refused) {
    std::string tmp = std::string(out) + ".tmp";
    FILE *f = fopen(tmp.c_str(), "wb");
    if (!f) {
        fprintf(stderr, "vec: %s: %s\n", tmp.c_str(), strerror(errno));
        return;
    }
    uint32_t done = 0, n = uint32_t(tables.size());
    std::vector<uint32_t> which;
    for (uint32_t i = 0; i < forms.size(); i++) {
        if (slots[i].state.load() == DONE) {
            which.push_back(i);
            done++;
        }
    }
    fwrite("PTXVEC1\n", 8, 1, f);
    fwrite(&n, 4, 1, f);
    fwrite(&rows, 4, 1, f);
    fwrite(&done, 4, 1, f);
    put(f, sh->device);
    for (auto &t : tables) {
        fwrite(t.name, 8, 1, f);
        fwrite(t.v.data(), 8, t.v.size(), f);
    }
    for (uint32_t i : which) {
        put(f, forms[i].name);
        put(f, forms[i].dst);
        put(f, forms[i].src);
        put(f, forms[i].text);
        for (size_t k = 0; k < forms[i].out.size(); k++) {
            fwrite(slots[i].out[k], 8, rows, f);
        }
    }
    bool ok = fflush(f) == 0 && !ferror(f);
    fsync(fileno(f));
    fclose(f);
    if (!ok || rename(tmp.c_str(), out) != 0) {
        fprintf(stderr, "vec: %s: %s\n", out, strerror(errno));
    }
    f = fopen(refused, "w");
    if (!f) {
        return;
    }
    static const char *names[] = {"not tried", "", "refused", "crashed"};
    for (uint32_t i = 0; i < forms.size(); i++) {
        uint32_t s = slots[i].state.load();
        if (s != DONE) {
            fprintf(f, "%s\t%s\t%s\t%s\n", forms[i].name.c_str(), names[s], forms[i].text.c_str(),
                    slots[i].error);
        }
    }
    fflush(f);
    fsync(fileno(f));
    fclose(f);
}

}  // namespace

int main(int argc, char **argv) {
    if (argc == 5 && strcmp(argv[1], "--print") == 0) {  // the module of the form argv[4], to look at
        if (!readTables(argv[3]) || !readForms(argv[2])) {
            return 2;
        }
        printf(".version %s\n.target sm_90\n.address_size 64\n", version);
        for (uint32_t i = 0; i < forms.size(); i++) {
            if (forms[i].name == argv[4] || strcmp(argv[4], "all") == 0) {
                printf("%s", kernel(forms[i], i).c_str());
            }
        }
        return 0;
    }
    if (argc < 5) {
        fprintf(stderr, "usage: vec FORMS INPUTS OUT REFUSED [seconds [processes [forms a module]]]\n");
        return 2;
    }
    int64_t begin = now(), limit = begin + 1000 * (argc > 5 ? atoi(argv[5]) : 90);
    int procs = argc > 6 ? atoi(argv[6]) : 12;
    uint32_t group = argc > 7 ? atoi(argv[7]) : 24;
    if (getenv("PTXVERSION")) {
        version = getenv("PTXVERSION");
    }
    procs = procs < 1 ? 1 : procs > 64 ? 64 : procs;
    group = group < 1 ? 1 : group;
    if (!readTables(argv[2]) || !readForms(argv[1])) {
        fprintf(stderr, "vec: inputs or forms cannot be read\n");
        return 2;
    }
    auto map = [](size_t n) {
        return mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    };
    sh = static_cast<Shared *>(map(sizeof(Shared)));
    slots = static_cast<Slot *>(map(sizeof(Slot) * forms.size()));
    if (sh == MAP_FAILED || slots == MAP_FAILED) {
        perror("vec: mmap");
        return 2;
    }
    const uint32_t most = sizeof sh->queue / sizeof sh->queue[0];
    for (uint32_t i = 0; i < forms.size(); i += group) {
        uint32_t left = uint32_t(forms.size()) - i;
        sh->queue[sh->tail++] = Group{i, left < group ? left : group};
    }
    printf("vec: %zu forms in %u groups, %u rows, %d processes\n", forms.size(), sh->tail.load(), rows,
           procs);
    fflush(stdout);
    std::vector<pid_t> pids(procs, 0);
    int running = 0, deaths = 0;
    auto spawn = [&](int i) {
        sh->worker[i].group.store(-1);
        sh->worker[i].since.store(now());
        fflush(nullptr);
        pid_t p = fork();
        if (p == 0) {
            child(sh->worker[i], group);
            _exit(5);
        }
        if (p > 0) {
            pids[i] = p;
            running++;
        }
    };
    for (int i = 0; i < procs; i++) {
        spawn(i);
    }
    int64_t said = now();
    while (running > 0) {
        int status;
        pid_t p;
        while ((p = waitpid(-1, &status, WNOHANG)) > 0) {
            int i = 0;
            while (i < procs && pids[i] != p) {
                i++;
            }
            if (i == procs) {
                continue;
            }
            pids[i] = 0;
            running--;
            int32_t g = sh->worker[i].group.load();
            if (g < 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
                continue;
            }
            deaths++;
            fprintf(stderr, "vec: process %d ended (status %d) in group %d\n", i, status, g);
            if (g >= 0) {
                Group q = sh->queue[g];
                for (uint32_t k = q.first; k < q.first + q.count; k++) {
                    if (slots[k].state.load() != TODO) {
                        continue;
                    }
                    if (q.count == 1 || sh->tail.load() >= most) {
                        settle(k, CRASHED, "the process died or hung");
                    } else {
                        sh->queue[sh->tail.load()] = Group{k, 1};
                        sh->tail++;
                    }
                }
            }
        }
        int64_t t = now();
        for (int i = 0; i < procs; i++) {
            if (pids[i] > 0 && sh->worker[i].group.load() >= 0 && t - sh->worker[i].since.load() > 20000) {
                fprintf(stderr, "vec: process %d hangs in group %d\n", i, sh->worker[i].group.load());
                sh->worker[i].since.store(t);
                kill(pids[i], SIGKILL);
            }
            // A new process for one that died. No process can start at all: stop after enough tries.
            if (pids[i] == 0 && sh->head.load() < sh->tail.load() && t < limit && deaths < 300 &&
                (deaths < 3 * procs || sh->launches.load() > 0)) {
                spawn(i);
            }
        }
        if (t > limit) {
            fprintf(stderr, "vec: out of time\n");
            for (int i = 0; i < procs; i++) {
                if (pids[i] > 0) {
                    kill(pids[i], SIGKILL);
                }
            }
            break;
        }
        if (t - said > 3000) {
            said = t;
            save(argv[3], argv[4]);
            printf("vec: %5.1f s: group %u of %u, %u modules, %u launches, %d processes ended early\n",
                   (t - begin) / 1e3, sh->head.load(), sh->tail.load(), sh->modules.load(),
                   sh->launches.load(), deaths);
            fflush(stdout);
        }
        usleep(20000);
    }
    save(argv[3], argv[4]);
    uint32_t count[4] = {};
    for (uint32_t i = 0; i < forms.size(); i++) {
        count[slots[i].state.load() & 3]++;
    }
    printf("vec: %s\n", sh->device);
    printf("vec: %u done, %u refused, %u crashed, %u not tried; %u modules, %.1f s\n", count[DONE],
           count[REFUSED], count[CRASHED], count[TODO], sh->modules.load(), (now() - begin) / 1e3);
    return count[DONE] > 0 ? 0 : 1;
}
