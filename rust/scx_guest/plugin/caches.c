/* SPDX-License-Identifier: GPL-2.0 */
/*
 * caches: which accesses of a guest would miss which cache
 *
 * A plugin of QEMU. Each access of a CPU goes through the model
 * (cache_model.h), and while a span is open it is counted: by the CPU and by
 * whose code it is, of a user program, of the kernel or of a BPF program.
 *
 *   1. A program in the guest says where a span begins and where it ends, by an
 *      instruction that does nothing (guest-count). From the first one on there
 *      is a model, with empty caches; before, the plugin looks away.
 *   2. Each span is written to the file that was named, in a line of JSON, when
 *      it ends. One without an end is dropped.
 *
 * QEMU emulates all CPUs by one thread, and passes to a plugin the CPU that an
 * instruction was translated for, not the one that runs it. So a CPU is known
 * by the base of the kernel's data of that CPU, in GS_BASE, or in
 * KERNEL_GS_BASE while user code runs. Which CPU has which is learned where an
 * interrupt returns: what IRETQ reads, a function of QEMU reads for it, which
 * knows its CPU. The kernel of a machine that was kept has returned from many
 * already, so that can be given.
 *
 * BPF programs are known by their address: where the kernel has its modules and
 * what is compiled while it runs. A guest has no modules unless it loads some.
 *
 * Limits: blocks of instructions are counted as they begin, so one that a page
 * fault ends is counted a little long. An access across the end of a page
 * counts for the first page only. Nothing here may change what the guest does:
 * held by tests/caches.rs.
 */

#include <inttypes.h>
#include <stdio.h>

#include "cache_model.h"
#include "qemu_plugin.h"

#define NR_CPUS_MAX   256
#define NR_BASES_MAX  (2 * NR_CPUS_MAX)
#define NAME_LEN_MAX  64
#define NR_SLOTS_INIT (1u << 12)

/* xchg %bx,%bx, which compilers do not make of anything. */
static const uint8_t marker[] = {0x66, 0x87, 0xdb};
static const uint8_t iretq[] = {0x48, 0xcf};

/* RAX at a marker; also in guest/count.c. */
enum {
	MARK_BEGIN = 0x62656701, /* RDI, RSI: a name; RDX: the time in ns */
	MARK_END = 0x62656702,	 /* RDX: the time in ns */
};

/* Of x86-64's memory: user space, and the end of what is for modules. */
#define USER_END    0x0000800000000000ull
#define MODULES_END 0xffffffffff000000ull

enum kind {
	KIND_USER,
	KIND_KERNEL,
	KIND_BPF,
	NR_KINDS,
};

static const char *const kind_names[NR_KINDS] = {"user", "kernel", "bpf"};

/* What was counted; field by field what is written. */
struct counts {
	uint64_t instructions;
	uint64_t accesses;
	uint64_t l1_misses;
	uint64_t l2_misses;
	uint64_t remote;
	uint64_t far;
	uint64_t memory;
	uint64_t invalidations;
};

/* Two instructions that met at a line: one had written it, one wants it. */
struct meeting {
	uint64_t pc; /* 0: a free slot */
	uint64_t written_pc;
	uint32_t line;
	uint8_t offset;
	uint8_t written_offset;
	uint64_t address; /* of the first such access, virtual */
	uint64_t reads;
	uint64_t writes;
	uint64_t invalidations;
};

/* The base of a CPU's data. */
struct base {
	uint64_t address;
	unsigned cpu;
};

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_API_VERSION;

static struct model model;
static uint32_t nr_cpus, nr_pages;
/* Where the kernel has its modules. */
static uint64_t modules_begin;
static bool has_meetings;
/* Neither a model nor spans, only bases. */
static bool is_learning_only;
static FILE *out;

static struct base bases[NR_BASES_MAX];
static unsigned nr_bases;

/* The CPU that runs, and its base. */
static unsigned current;
static uint64_t current_base;
static bool is_current_known;

static bool has_begun, is_span_open;
static char span_name[NAME_LEN_MAX + 1];
static uint64_t span_begin_ns;
static uint64_t nr_unknown;
static struct counts counts[NR_CPUS_MAX][NR_KINDS];

/* Open addressing; at most half of the slots are taken. */
static struct meeting *meetings;
static uint32_t nr_slots, nr_meetings;

static struct qemu_plugin_register *gs_base, *kernel_gs_base;
static struct qemu_plugin_register *rax, *rdi, *rsi, *rdx;
static GByteArray *buffer;

static void fail(const char *why)
{
	fprintf(stderr, "caches: %s\n", why);
	exit(1);
}

static enum kind kind_of(uint64_t pc)
{
	if (pc < USER_END)
		return KIND_USER;
	return pc >= modules_begin && pc < MODULES_END ? KIND_BPF : KIND_KERNEL;
}

static uint64_t read_register(struct qemu_plugin_register *handle)
{
	uint64_t value = 0;

	/* As g_byte_array_set_size() would, but for each block. */
	buffer->len = 0;
	if (qemu_plugin_read_register(handle, buffer) == sizeof(value))
		memcpy(&value, buffer->data, sizeof(value));
	return value;
}

/*
 * Return the base of the running CPU's data, 0 if it has none yet, where code
 * of @kind is at its begin. A user program cannot have one like the kernel's,
 * so it is the other one while the kernel has not swapped them.
 */
static uint64_t read_base(enum kind kind)
{
	bool is_user = kind == KIND_USER;
	uint64_t base = read_register(is_user ? kernel_gs_base : gs_base);

	if (!(base >> 63))
		base = read_register(is_user ? gs_base : kernel_gs_base);
	return base >> 63 ? base : 0;
}

static void add_base(uint64_t address, unsigned cpu)
{
	unsigned i;

	for (i = 0; i < nr_bases; i++)
		if (bases[i].address == address)
			return;
	/* Old kernels have another one early in a boot; more have none. */
	if (nr_bases == NR_BASES_MAX || cpu >= nr_cpus)
		fail("CPUs change the base of their data");
	bases[nr_bases++] = (struct base){address, cpu};
	fprintf(out, "{\"cpu\":%u,\"base\":%" PRIu64 "}\n", cpu, address);
	fflush(out);
}

/* Find out which CPU runs, where code of @kind is at its begin. */
static void find_current(enum kind kind)
{
	uint64_t base = read_base(kind);
	unsigned i;

	if (base == current_base && is_current_known)
		return;
	current_base = base;
	is_current_known = false;
	for (i = 0; i < nr_bases; i++) {
		if (bases[i].address == base) {
			current = bases[i].cpu;
			is_current_known = true;
		}
	}
}

/* Return the slot of such a meeting in @slots, free or taken. */
static struct meeting *find_slot(struct meeting *slots, uint32_t nr,
				 const struct meeting *like)
{
	/* Odd numbers with as many ones as zeroes: any will do. */
	uint64_t hash = like->pc * 0x9e3779b97f4a7c15ull ^
			like->written_pc * 0xc2b2ae3d27d4eb4full ^
			like->line * 0x165667b19e3779f9ull;
	uint32_t i = hash >> 32;

	for (;; i++) {
		struct meeting *slot = &slots[i & (nr - 1)];

		if (!slot->pc ||
		    (slot->pc == like->pc && slot->line == like->line &&
		     slot->written_pc == like->written_pc))
			return slot;
	}
}

static void grow_meetings(void)
{
	uint32_t i, nr = nr_slots ? nr_slots * 2 : NR_SLOTS_INIT;
	struct meeting *slots = model_alloc(nr, sizeof(*slots));

	for (i = 0; i < nr_slots; i++)
		if (meetings[i].pc)
			*find_slot(slots, nr, &meetings[i]) = meetings[i];
	free(meetings);
	meetings = slots;
	nr_slots = nr;
}

static void note_meeting(struct meeting like, unsigned events, bool is_write)
{
	struct meeting *slot;

	if (nr_meetings >= nr_slots / 2)
		grow_meetings();
	slot = find_slot(meetings, nr_slots, &like);
	if (!slot->pc) {
		*slot = like;
		nr_meetings++;
	}
	if (events & (FROM_REMOTE | FROM_FAR)) {
		slot->reads += !is_write;
		slot->writes += is_write;
	}
	slot->invalidations += !!(events & INVALIDATION);
}

static void access_line(uint64_t pc, uint64_t address, uint64_t phys,
			bool is_write)
{
	uint8_t offset = phys & ((1 << LINE_SHIFT) - 1);
	struct site written = {0};
	uint32_t line = phys >> LINE_SHIFT;
	struct counts *count;
	unsigned events;

	/* What the firmware has in a hole of the memory is no one's. */
	if (phys >> PAGE_SHIFT >= nr_pages)
		return;
	events = model_access(&model, current, line, is_write,
			      (struct site){pc, offset}, &written);
	if (!is_span_open)
		return;
	count = &counts[current][kind_of(pc)];
	count->accesses++;
	if (!events)
		return;
	count->l1_misses += !!(events & L1_MISS);
	count->l2_misses += !!(events & L2_MISS);
	count->remote += !!(events & FROM_REMOTE);
	count->far += !!(events & FROM_FAR);
	count->memory += !!(events & FROM_MEMORY);
	count->invalidations += !!(events & INVALIDATION);
	if (has_meetings && events & (FROM_REMOTE | FROM_FAR | INVALIDATION))
		note_meeting(
			(struct meeting){
				.pc = pc,
				.written_pc = written.pc,
				.line = line,
				.offset = offset,
				.written_offset = written.offset,
				.address = address,
			},
			events, is_write);
}

static void on_access(unsigned vcpu_index, qemu_plugin_meminfo_t info,
		      uint64_t address, void *data)
{
	struct qemu_plugin_hwaddr *hwaddr;
	uint64_t phys, last, pc = (uintptr_t)data;
	bool is_write;

	(void)vcpu_index;
	if (!has_begun)
		return;
	hwaddr = qemu_plugin_get_hwaddr(info, address);
	if (!hwaddr || qemu_plugin_hwaddr_is_io(hwaddr))
		return;
	phys = qemu_plugin_hwaddr_phys_addr(hwaddr);
	last = phys + (1u << qemu_plugin_mem_size_shift(info)) - 1;
	is_write = qemu_plugin_mem_is_store(info);
	access_line(pc, address, phys, is_write);
	if (last >> LINE_SHIFT != phys >> LINE_SHIFT &&
	    last >> PAGE_SHIFT == phys >> PAGE_SHIFT)
		access_line(pc, address + (last - phys), last, is_write);
}

/* An IRETQ reads, and @vcpu_index is the CPU that runs. */
static void on_interrupt_return(unsigned vcpu_index, qemu_plugin_meminfo_t info,
				uint64_t address, void *data)
{
	uint64_t base;

	(void)info;
	(void)address;
	(void)data;
	base = read_base(KIND_KERNEL);
	if (base && (base != current_base || !is_current_known))
		add_base(base, vcpu_index);
}

static void on_block(unsigned vcpu_index, void *data)
{
	uintptr_t word = (uintptr_t)data;
	enum kind kind = word % NR_KINDS;

	(void)vcpu_index;
	if (!has_begun)
		return;
	find_current(kind);
	if (!is_span_open)
		return;
	nr_unknown += !is_current_known;
	counts[current][kind].instructions += word / NR_KINDS;
}

static void write_counts(const struct counts *of)
{
	fprintf(out,
		"{\"instructions\":%" PRIu64 ",\"accesses\":%" PRIu64
		",\"l1_misses\":%" PRIu64 ",\"l2_misses\":%" PRIu64
		",\"remote\":%" PRIu64 ",\"far\":%" PRIu64
		",\"memory\":%" PRIu64 ",\"invalidations\":%" PRIu64 "}",
		of->instructions, of->accesses, of->l1_misses, of->l2_misses,
		of->remote, of->far, of->memory, of->invalidations);
}

static void write_meeting(const struct meeting *of)
{
	fprintf(out,
		"{\"kind\":\"%s\",\"line\":%" PRIu32 ",\"address\":%" PRIu64
		",\"pc\":%" PRIu64 ",\"written_pc\":%" PRIu64
		",\"written_offset\":%u,\"reads\":%" PRIu64
		",\"writes\":%" PRIu64 ",\"invalidations\":%" PRIu64 "}",
		kind_names[kind_of(of->pc)], of->line, of->address, of->pc,
		of->written_pc, of->written_offset, of->reads, of->writes,
		of->invalidations);
}

static void end_span(uint64_t end_ns)
{
	const char *comma = "";
	uint32_t i, kind;

	if (!is_span_open)
		return;
	is_span_open = false;
	fprintf(out, "{\"name\":\"%s\",\"duration_ns\":%" PRIu64, span_name,
		end_ns > span_begin_ns ? end_ns - span_begin_ns : 0);
	fprintf(out, ",\"unknown\":%" PRIu64 ",\"cpus\":[", nr_unknown);
	for (i = 0; i < nr_cpus; i++) {
		fprintf(out, "%s{", i ? "," : "");
		for (kind = 0; kind < NR_KINDS; kind++) {
			fprintf(out, "%s\"%s\":", kind ? "," : "",
				kind_names[kind]);
			write_counts(&counts[i][kind]);
		}
		fputc('}', out);
	}
	fputs("],\"meetings\":[", out);
	for (i = 0; i < nr_slots; i++) {
		if (!meetings[i].pc)
			continue;
		fputs(comma, out);
		write_meeting(&meetings[i]);
		comma = ",";
	}
	fputs("]}\n", out);
	fflush(out);
}

/* Read the name at @address; what JSON would quote becomes '?'. */
static void read_name(uint64_t address, uint64_t length)
{
	uint64_t i;

	if (length > NAME_LEN_MAX)
		length = NAME_LEN_MAX;
	buffer->len = 0;
	if (length && !qemu_plugin_read_memory_vaddr(address, buffer, length))
		length = 0;
	for (i = 0; i < length; i++) {
		uint8_t byte = buffer->data[i];
		bool is_plain = byte >= ' ' && byte < 0x7f && byte != '"' &&
				byte != '\\';

		span_name[i] = is_plain ? byte : '?';
	}
	span_name[length] = '\0';
}

static void begin_span(void)
{
	has_begun = true;
	find_current(KIND_USER);
	read_name(read_register(rdi), read_register(rsi));
	span_begin_ns = read_register(rdx);
	memset(counts, 0, sizeof(counts));
	if (nr_slots)
		memset(meetings, 0, nr_slots * sizeof(*meetings));
	nr_meetings = 0;
	nr_unknown = 0;
	is_span_open = true;
}

static void on_marker(unsigned vcpu_index, void *data)
{
	(void)vcpu_index;
	(void)data;
	switch (read_register(rax)) {
	case MARK_BEGIN:
		end_span(read_register(rdx));
		begin_span();
		break;
	case MARK_END:
		end_span(read_register(rdx));
		break;
	}
}

static bool is_insn(const struct qemu_plugin_insn *insn, const uint8_t *bytes,
		    size_t size)
{
	uint8_t found[sizeof(marker)];

	return qemu_plugin_insn_size(insn) == size &&
	       qemu_plugin_insn_data(insn, found, size) == size &&
	       !memcmp(found, bytes, size);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	enum kind kind = kind_of(qemu_plugin_tb_vaddr(tb));
	size_t i, nr_insns = qemu_plugin_tb_n_insns(tb);
	uintptr_t word = nr_insns * NR_KINDS + kind;

	(void)id;
	if (!is_learning_only)
		qemu_plugin_register_vcpu_tb_exec_cb(
			tb, on_block, QEMU_PLUGIN_CB_R_REGS, (void *)word);
	for (i = 0; i < nr_insns; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uintptr_t pc = qemu_plugin_insn_vaddr(insn);

		if (kind == KIND_KERNEL && is_insn(insn, iretq, sizeof(iretq)))
			qemu_plugin_register_vcpu_mem_cb(
				insn, on_interrupt_return,
				QEMU_PLUGIN_CB_R_REGS, QEMU_PLUGIN_MEM_RW,
				NULL);
		if (is_learning_only)
			continue;
		if (kind == KIND_USER && is_insn(insn, marker, sizeof(marker)))
			qemu_plugin_register_vcpu_insn_exec_cb(
				insn, on_marker, QEMU_PLUGIN_CB_R_REGS, NULL);
		qemu_plugin_register_vcpu_mem_cb(
			insn, on_access, QEMU_PLUGIN_CB_NO_REGS,
			QEMU_PLUGIN_MEM_RW, (void *)pc);
	}
}

static struct qemu_plugin_register *find_register(const GArray *registers,
						  const char *name)
{
	const qemu_plugin_reg_descriptor *of = (const void *)registers->data;
	unsigned i;

	for (i = 0; i < registers->len; i++)
		if (!strcmp(of[i].name, name))
			return of[i].handle;
	fail("QEMU does not tell registers");
	return NULL;
}

static void on_cpu(qemu_plugin_id_t id, unsigned vcpu_index)
{
	GArray *registers;

	(void)id;
	(void)vcpu_index;
	if (buffer)
		return;
	buffer = g_byte_array_new();
	registers = qemu_plugin_get_registers();
	gs_base = find_register(registers, "gs_base");
	kernel_gs_base = find_register(registers, "k_gs_base");
	rax = find_register(registers, "rax");
	rdi = find_register(registers, "rdi");
	rsi = find_register(registers, "rsi");
	rdx = find_register(registers, "rdx");
}

/*
 * What is counted until a guest is off is another number each time: a CPU that
 * has asked for it goes on until QEMU's main thread has seen it.
 */
static void on_power_off(qemu_plugin_id_t id, void *data)
{
	(void)id;
	(void)data;
	if (is_span_open)
		fprintf(out, "{\"open\":\"%s\"}\n", span_name);
	fflush(out);
}

/* Take CPU:ADDRESS of "base=CPU:ADDRESS". */
static bool take_base(const char *text)
{
	struct base base;

	if (nr_bases == NR_BASES_MAX ||
	    sscanf(text, "%u:%" SCNu64, &base.cpu, &base.address) != 2 ||
	    base.cpu >= NR_CPUS_MAX)
		return false;
	bases[nr_bases++] = base;
	return true;
}

/* Take SETS:WAYS:CPUS of "l1=SETS:WAYS:CPUS". */
static bool take_level(struct level *level, const char *text)
{
	return sscanf(text, "%" SCNu32 ":%" SCNu32 ":%" SCNu32, &level->nr_sets,
		      &level->nr_ways, &level->nr_cpus) == 3;
}

/* Take one option, NAME=VALUE. Return whether there is such a one. */
static bool take_option(const char *option)
{
	const char *value = strchr(option, '=');
	size_t length = value ? value - option : 0;

	if (!value)
		return false;
	value++;
	if (!strncmp(option, "l1", length))
		return take_level(&model.l1, value);
	if (!strncmp(option, "l2", length))
		return take_level(&model.l2, value);
	if (!strncmp(option, "l3", length))
		return take_level(&model.l3, value);
	if (!strncmp(option, "base", length))
		return take_base(value);
	if (!strncmp(option, "pages", length))
		return sscanf(value, "%" SCNu32, &nr_pages) == 1;
	if (!strncmp(option, "modules", length))
		return sscanf(value, "%" SCNu64, &modules_begin) == 1;
	if (!strncmp(option, "meetings", length)) {
		has_meetings = *value == '1';
		return true;
	}
	if (!strncmp(option, "learn", length)) {
		is_learning_only = *value == '1';
		return true;
	}
	if (!strncmp(option, "out", length)) {
		out = fopen(value, "w");
		return out;
	}
	return false;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id,
					   const qemu_info_t *info, int argc,
					   char **argv)
{
	int i;

	if (!info->system_emulation || info->system.smp_vcpus > NR_CPUS_MAX)
		return 1;
	nr_cpus = info->system.smp_vcpus;
	for (i = 0; i < argc; i++) {
		if (!take_option(argv[i])) {
			fprintf(stderr, "caches: bad option %s\n", argv[i]);
			return 1;
		}
	}
	if (!out || !model_init(&model, nr_cpus, nr_pages)) {
		fprintf(stderr, "caches: there can be no such caches\n");
		return 1;
	}
	qemu_plugin_register_vcpu_init_cb(id, on_cpu);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, on_power_off, NULL);
	return 0;
}
