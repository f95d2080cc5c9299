/* SPDX-License-Identifier: GPL-2.0 */
/*
 * cache_model: which cache an access finds its line in
 *
 * CPUs in three levels of caches, each shared by a number of consecutive CPUs:
 * an L1 by the threads of a core, an L2, an L3. A directory knows for each line
 * who has a copy, and who has the only one that is up to date. An access:
 *
 *   1. L1, then L2: a hit there ends the search. What is in an L1 is in its L2
 *      as well; what leaves the L2 leaves its L1s.
 *   2. Not there: from the cache that has the only current copy, if there is
 *      one, which is then also in the L3 of the two, or in memory if they have
 *      no L3 in common. Else from its own L3, else from memory. The L3 takes
 *      each line that passes, and what leaves an L3 stays in the L2s.
 *   3. A write takes the line from all other caches first. The writer's copy
 *      is the only current one until another core asks for it or the line
 *      leaves the L2, for the L3.
 *
 * All sets replace what was used least recently.
 *
 * Not here: prefetching, instructions, TLBs, time, and what real L3s do to
 * spread lines over their sets. Nothing of QEMU either, so that tests run this
 * natively (cache_model_test.c).
 */
#ifndef CACHE_MODEL_H
#define CACHE_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LINE_SHIFT     6
#define PAGE_SHIFT     12
#define LINES_PER_PAGE (1u << (PAGE_SHIFT - LINE_SHIFT))

/* A bit for each in a word of 64, and below OWNER_L3 as an owner. */
#define NR_L2_MAX 64
#define NR_L3_MAX 64

/* What an access met; none of them if the L1 had the line. */
enum event {
	L1_MISS = 1 << 0,
	L2_MISS = 1 << 1,
	/* Below an L2_MISS at most one of these; none: from the own L3. */
	FROM_REMOTE = 1 << 2, /* another core of this L3 had written it */
	FROM_FAR = 1 << 3,    /* a core below another L3 had */
	FROM_MEMORY = 1 << 4,
	/* A write that took copies from others. */
	INVALIDATION = 1 << 5,
};

/* One of the caches of a level. */
struct cache {
	/* Of each set its ways, the last used first; a line plus 1, or 0. */
	uint32_t *ways;
};

struct level {
	uint32_t nr_sets;
	uint32_t nr_ways;
	uint32_t nr_cpus; /* consecutive ones that share a cache */
	uint32_t nr_caches;
	uint32_t set_mask; /* nr_sets - 1 if that is a power of 2, else 0 */
	struct cache *caches;
};

/* Who has the only copy that is up to date. */
enum {
	OWNER_NONE = 0, /* memory is */
	OWNER_L2 = 1,	/* plus the index of an L2, or of the L1s above it */
	OWNER_L3 = 1 + NR_L2_MAX, /* plus the index of an L3 */
};

/* An instruction and where in a line it wrote: of use to who asks for it. */
struct site {
	uint64_t pc;
	uint8_t offset;
};

/* What the directory knows of a line. */
struct line {
	uint64_t l2s; /* which have a copy */
	uint64_t l3s; /* which have a copy, be it an old one of their own */
	uint64_t written_pc; /* the last that wrote it, 0 if none */
	uint8_t written_offset;
	uint8_t owner;
};

struct model {
	struct level l1, l2, l3;
	uint32_t nr_pages;
	/* Of each page of memory its lines, once one was used. */
	struct line **pages;
};

/* Return @nr zeroed elements of @size bytes; without them there is no run. */
static inline void *model_alloc(size_t nr, size_t size)
{
	void *memory = calloc(nr, size);

	if (!memory)
		abort();
	return memory;
}

static inline void level_init(struct level *level, uint32_t nr_cpus)
{
	uint32_t i;

	level->nr_caches = (nr_cpus + level->nr_cpus - 1) / level->nr_cpus;
	level->set_mask =
		level->nr_sets & (level->nr_sets - 1) ? 0 : level->nr_sets - 1;
	level->caches = model_alloc(level->nr_caches, sizeof(*level->caches));
	for (i = 0; i < level->nr_caches; i++)
		level->caches[i].ways =
			model_alloc((size_t)level->nr_sets * level->nr_ways,
				    sizeof(*level->caches[i].ways));
}

/*
 * Set up the caches of @nr_cpus CPUs for @nr_pages pages of memory. The levels
 * of @model have their nr_sets, nr_ways and nr_cpus; an L2 is shared by whole
 * L1s, an L3 by whole L2s.
 *
 * Return whether there can be such ones.
 */
static inline bool model_init(struct model *model, uint32_t nr_cpus,
			      uint32_t nr_pages)
{
	struct level *levels[] = {&model->l1, &model->l2, &model->l3};
	uint32_t i;

	for (i = 0; i < 3; i++) {
		if (!levels[i]->nr_sets || !levels[i]->nr_ways ||
		    !levels[i]->nr_cpus)
			return false;
		level_init(levels[i], nr_cpus);
	}
	model->nr_pages = nr_pages;
	model->pages = model_alloc(nr_pages, sizeof(*model->pages));
	return model->l2.nr_caches <= NR_L2_MAX &&
	       model->l3.nr_caches <= NR_L3_MAX &&
	       !(model->l2.nr_cpus % model->l1.nr_cpus) &&
	       !(model->l3.nr_cpus % model->l2.nr_cpus);
}

static inline uint32_t *level_set(const struct level *level, uint32_t cache,
				  uint32_t line)
{
	uint32_t set = level->set_mask ? line & level->set_mask
				       : line % level->nr_sets;

	return level->caches[cache].ways + (size_t)set * level->nr_ways;
}

/* Make @tag, found at @way of @ways or to be put there, the last used one. */
static inline void set_use(uint32_t *ways, uint32_t way, uint32_t tag)
{
	for (; way > 0; way--)
		ways[way] = ways[way - 1];
	ways[0] = tag;
}

/* Return whether @line is there; then it is the last used one now. */
static inline bool level_use(struct level *level, uint32_t cache, uint32_t line)
{
	uint32_t *ways = level_set(level, cache, line);
	uint32_t way;

	for (way = 0; way < level->nr_ways; way++) {
		if (ways[way] == line + 1) {
			set_use(ways, way, line + 1);
			return true;
		}
	}
	return false;
}

/*
 * Put @line, which is not there, into a way that is free or was used least
 * recently.
 *
 * Return true and which line had to go, in @victim, if one had to.
 */
static inline bool level_insert(struct level *level, uint32_t cache,
				uint32_t line, uint32_t *victim)
{
	uint32_t *ways = level_set(level, cache, line);
	uint32_t way, tag = 0;

	for (way = 0; way < level->nr_ways - 1 && ways[way]; way++)
		;
	tag = ways[way];
	set_use(ways, way, line + 1);
	*victim = tag - 1;
	return tag;
}

/* Return whether @line was there; it is not any more. */
static inline bool level_remove(struct level *level, uint32_t cache,
				uint32_t line)
{
	uint32_t *ways = level_set(level, cache, line);
	uint32_t way, last = level->nr_ways - 1;

	for (way = 0; way <= last && ways[way] != line + 1; way++)
		;
	if (way > last)
		return false;
	for (; way < last; way++)
		ways[way] = ways[way + 1];
	ways[last] = 0;
	return true;
}

/* Return what is known of @line, which is one of the memory's. */
static inline struct line *model_line(struct model *model, uint32_t line)
{
	struct line **page = &model->pages[line / LINES_PER_PAGE];

	if (!*page)
		*page = model_alloc(LINES_PER_PAGE, sizeof(**page));
	return *page + line % LINES_PER_PAGE;
}

static inline uint32_t l3_of_l2(const struct model *model, uint32_t l2)
{
	return l2 * model->l2.nr_cpus / model->l3.nr_cpus;
}

/* Take @line from all L1s of @l2 but @but. Return whether one had it. */
static inline bool remove_from_l1s(struct model *model, uint32_t l2,
				   uint32_t line, uint32_t but)
{
	uint32_t nr_l1s = model->l2.nr_cpus / model->l1.nr_cpus;
	uint32_t l1 = l2 * nr_l1s, end = l1 + nr_l1s;
	bool was_there = false;

	/* The last L2 may have fewer CPUs than it could. */
	if (end > model->l1.nr_caches)
		end = model->l1.nr_caches;
	for (; l1 < end; l1++)
		if (l1 != but && level_remove(&model->l1, l1, line))
			was_there = true;
	return was_there;
}

#define BUT_NONE UINT32_MAX

/* Put @line, known as @of, into @l3 unless it is there. */
static inline void fill_l3(struct model *model, uint32_t l3, uint32_t line,
			   struct line *of)
{
	uint32_t victim;
	struct line *gone;

	of->l3s |= 1ull << l3;
	if (level_use(&model->l3, l3, line) ||
	    !level_insert(&model->l3, l3, line, &victim))
		return;
	gone = model_line(model, victim);
	gone->l3s &= ~(1ull << l3);
	if (gone->owner == OWNER_L3 + l3)
		gone->owner = OWNER_NONE;
}

/* Put @line, known as @of, into @l2. */
static inline void fill_l2(struct model *model, uint32_t l2, uint32_t line,
			   struct line *of)
{
	uint32_t victim, l3 = l3_of_l2(model, l2);
	struct line *gone;

	of->l2s |= 1ull << l2;
	if (!level_insert(&model->l2, l2, line, &victim))
		return;
	gone = model_line(model, victim);
	gone->l2s &= ~(1ull << l2);
	remove_from_l1s(model, l2, victim, BUT_NONE);
	if (gone->owner == OWNER_L2 + l2) {
		fill_l3(model, l3, victim, gone);
		gone->owner = OWNER_L3 + l3;
	}
}

/* Get @line, known as @of, for an L2 that has none. Return from where. */
static inline unsigned fetch(struct model *model, uint32_t l2, uint32_t line,
			     struct line *of)
{
	uint32_t l3 = l3_of_l2(model, l2);
	uint8_t own_l3 = OWNER_L3 + l3;
	unsigned from = of->l3s & 1ull << l3 ? 0 : FROM_MEMORY;

	if (of->owner >= OWNER_L3 && of->owner != own_l3) {
		from = FROM_FAR;
		of->owner = OWNER_NONE;
	} else if (of->owner >= OWNER_L2 && of->owner < OWNER_L3) {
		/* This L2 has none, so the owner is another one. */
		if (l3_of_l2(model, of->owner - OWNER_L2) == l3) {
			from = FROM_REMOTE;
			of->owner = own_l3;
		} else {
			from = FROM_FAR;
			of->owner = OWNER_NONE;
		}
	}
	fill_l3(model, l3, line, of);
	fill_l2(model, l2, line, of);
	return from;
}

/* Take @line, known as @of, from all but @l1, its L2 and its L3. */
static inline unsigned take(struct model *model, uint32_t l1, uint32_t l2,
			    uint32_t line, struct line *of)
{
	uint32_t l3 = l3_of_l2(model, l2);
	uint64_t l2s = of->l2s & ~(1ull << l2);
	uint64_t l3s = of->l3s & ~(1ull << l3);
	bool was_there = remove_from_l1s(model, l2, line, l1);

	was_there |= l2s || l3s;
	for (; l2s; l2s &= l2s - 1) {
		uint32_t other = __builtin_ctzll(l2s);

		level_remove(&model->l2, other, line);
		remove_from_l1s(model, other, line, BUT_NONE);
	}
	for (; l3s; l3s &= l3s - 1)
		level_remove(&model->l3, __builtin_ctzll(l3s), line);
	of->l2s &= 1ull << l2;
	of->l3s &= 1ull << l3;
	of->owner = OWNER_L2 + l2;
	return was_there ? INVALIDATION : 0;
}

/*
 * Read or, if @is_write, write @line on @cpu. A line is an address by 64.
 *
 * Return the events that it meant. Where the line came FROM_REMOTE or FROM_FAR,
 * or others lost it, @written tells who wrote it before.
 */
static inline unsigned model_access(struct model *model, uint32_t cpu,
				    uint32_t line, bool is_write,
				    struct site site, struct site *written)
{
	uint32_t l1 = cpu / model->l1.nr_cpus;
	uint32_t l2 = cpu / model->l2.nr_cpus;
	struct line *of = NULL;
	unsigned events = 0;
	uint32_t victim;

	if (!level_use(&model->l1, l1, line)) {
		events = L1_MISS;
		if (!level_use(&model->l2, l2, line)) {
			of = model_line(model, line);
			events |= L2_MISS | fetch(model, l2, line, of);
		}
		/* What it replaces is still in the L2. */
		level_insert(&model->l1, l1, line, &victim);
	}
	if (!is_write && !of)
		return events;
	if (!of)
		of = model_line(model, line);
	*written = (struct site){of->written_pc, of->written_offset};
	if (is_write) {
		events |= take(model, l1, l2, line, of);
		of->written_pc = site.pc;
		of->written_offset = site.offset;
	}
	return events;
}

#endif
