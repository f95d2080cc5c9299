/* SPDX-License-Identifier: GPL-2.0 */
/*
 * cache_model_test: the model of caches against known answers
 *
 * Run by tests/cache_model.rs. Caches are small: an L1 of 2 sets of 2 ways, an
 * L2 of 4 of 2, an L3 of 8 of 4. Prints what does not hold and exits with 1.
 */

#include <stdio.h>

#include "cache_model.h"

#define NR_CPUS	 8
#define NR_PAGES 64

static struct model model;
static int status;

#define check(claim)                                                  \
	do {                                                          \
		if (!(claim)) {                                       \
			printf("%s: not so: %s\n", __func__, #claim); \
			status = 1;                                   \
		}                                                     \
	} while (0)

/* Caches of which each L1, L2 and L3 has so many CPUs. */
static void setup(uint32_t l1_cpus, uint32_t l2_cpus, uint32_t l3_cpus)
{
	/* What there was before is not given back: it is little. */
	model = (struct model){
		.l1 = {.nr_sets = 2, .nr_ways = 2, .nr_cpus = l1_cpus},
		.l2 = {.nr_sets = 4, .nr_ways = 2, .nr_cpus = l2_cpus},
		.l3 = {.nr_sets = 8, .nr_ways = 4, .nr_cpus = l3_cpus},
	};
	if (!model_init(&model, NR_CPUS, NR_PAGES))
		abort();
}

static unsigned do_access(uint32_t cpu, uint32_t line, bool is_write)
{
	/* A site that tells who it was. */
	struct site site = {cpu + 1, line % 64}, written;

	return model_access(&model, cpu, line, is_write, site, &written);
}

static unsigned rd(uint32_t cpu, uint32_t line)
{
	return do_access(cpu, line, false);
}

static unsigned wr(uint32_t cpu, uint32_t line)
{
	return do_access(cpu, line, true);
}

/* Read lines 0 to @nr on CPU 0, and return what all of that met together. */
static unsigned walk(uint32_t nr, unsigned *nr_events)
{
	unsigned events = 0, all = 0;
	uint32_t line;

	*nr_events = 0;
	for (line = 0; line < nr; line++) {
		events = rd(0, line);
		all |= events;
		*nr_events += !!events;
	}
	return all;
}

static void a_walk_meets_the_smallest_cache_that_holds_it(void)
{
	const unsigned from_l2 = L1_MISS, from_l3 = L1_MISS | L2_MISS;
	const unsigned from_memory = from_l3 | FROM_MEMORY;
	const struct {
		uint32_t nr;
		unsigned events, nr_events;
	} cases[] = {
		{4, 0, 0},
		{8, from_l2, 8},
		{32, from_l3, 32},
		{64, from_memory, 64},
		{640, from_memory, 640},
	};
	unsigned nr_events;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		setup(1, 1, 8);
		check(walk(cases[i].nr, &nr_events) == from_memory);
		check(nr_events == cases[i].nr);
		check(walk(cases[i].nr, &nr_events) == cases[i].events);
		check(nr_events == cases[i].nr_events);
	}
}

static void what_was_used_least_recently_is_replaced(void)
{
	setup(1, 1, 8);
	/* All of one set of the L1, and of two of the L2. */
	rd(0, 0);
	rd(0, 2);
	rd(0, 0);
	rd(0, 4);
	check(rd(0, 0) == 0);
	check(rd(0, 4) == 0);
	check(rd(0, 2) == L1_MISS);
	check(rd(0, 4) == 0);
	check(rd(0, 0) == L1_MISS);
}

static void what_leaves_an_l2_leaves_its_l1(void)
{
	setup(1, 1, 8);
	/* All of one set of the L2, whose order hits in the L1 do not change. */
	rd(0, 0);
	rd(0, 4);
	rd(0, 0);
	rd(0, 8);
	check(rd(0, 0) == (L1_MISS | L2_MISS));
	check(rd(0, 8) == 0);
}

static void sets_need_not_be_a_power_of_two(void)
{
	uint32_t line;

	setup(1, 1, 8);
	model.l1.nr_sets = 3;
	model.l1.set_mask = 0;
	model.l1.caches[0].ways = model_alloc(6, sizeof(uint32_t));
	for (line = 0; line < 6; line++)
		rd(0, line);
	for (line = 0; line < 6; line++)
		check(!(rd(0, line) & L1_MISS));
	check(rd(0, 6) & L1_MISS);
	check(rd(0, 0) & L1_MISS);
	check(rd(0, 1) == 0);
}

static void two_that_write_in_turn_take_the_line_each_time(void)
{
	int i;

	setup(1, 1, 8);
	wr(0, 5);
	for (i = 0; i < 10; i++) {
		unsigned events =
			L1_MISS | L2_MISS | FROM_REMOTE | INVALIDATION;

		check(wr(1, 5) == events);
		check(wr(1, 5) == 0);
		check(wr(0, 5) == events);
		check(rd(0, 5) == 0);
	}
}

static void readers_share_a_line_until_one_writes(void)
{
	setup(1, 1, 8);
	wr(0, 5);
	check(rd(1, 5) == (L1_MISS | L2_MISS | FROM_REMOTE));
	/* The first one left it in the L3. */
	check(rd(2, 5) == (L1_MISS | L2_MISS));
	check(rd(0, 5) == 0);
	check(wr(2, 5) == INVALIDATION);
	check(wr(2, 5) == 0);
	check(rd(0, 5) == (L1_MISS | L2_MISS | FROM_REMOTE));
	check(rd(1, 5) == (L1_MISS | L2_MISS));
}

static void what_nobody_wrote_is_not_remote(void)
{
	setup(1, 1, 8);
	rd(0, 5);
	check(rd(1, 5) == (L1_MISS | L2_MISS));
	check(wr(1, 5) == INVALIDATION);
}

static void what_left_the_l2_of_its_writer_is_in_the_l3(void)
{
	setup(1, 1, 8);
	wr(0, 0);
	rd(0, 4);
	rd(0, 8);
	check(rd(1, 0) == (L1_MISS | L2_MISS));
	/* And the writer has it no more. */
	check(wr(1, 0) == 0);
	/* Out of the L3 it is in memory. */
	setup(1, 1, 8);
	wr(0, 0);
	for (uint32_t line = 8; line < 64; line += 8)
		rd(0, line);
	check(rd(1, 0) == (L1_MISS | L2_MISS | FROM_MEMORY));
}

static void below_another_l3_it_is_far(void)
{
	setup(1, 1, 4);
	wr(0, 5);
	check(rd(1, 5) == (L1_MISS | L2_MISS | FROM_REMOTE));
	/* In the L3 of those, and not in memory yet. */
	check(rd(4, 5) == (L1_MISS | L2_MISS | FROM_FAR));
	check(rd(5, 5) == (L1_MISS | L2_MISS));
	check(wr(5, 5) == INVALIDATION);
	/* The other L3 has lost it, too. */
	check(rd(0, 5) == (L1_MISS | L2_MISS | FROM_FAR));
	check(rd(1, 5) == (L1_MISS | L2_MISS));
	/* What was only read comes from memory to another L3. */
	rd(0, 6);
	check(rd(4, 6) == (L1_MISS | L2_MISS | FROM_MEMORY));
	check(wr(4, 6) == INVALIDATION);
	check(wr(0, 6) == (L1_MISS | L2_MISS | FROM_FAR | INVALIDATION));
	/* The same of cores with two threads. */
	setup(2, 2, 4);
	wr(1, 5);
	check(rd(3, 5) == (L1_MISS | L2_MISS | FROM_REMOTE));
	check(rd(4, 5) == (L1_MISS | L2_MISS | FROM_FAR));
}

static void threads_of_a_core_share(void)
{
	setup(2, 2, 8);
	wr(0, 5);
	check(rd(1, 5) == 0);
	check(wr(1, 5) == 0);
	check(rd(2, 5) == (L1_MISS | L2_MISS | FROM_REMOTE));
}

static void cores_below_one_l2_invalidate_an_l1_only(void)
{
	setup(1, 4, 8);
	wr(0, 5);
	check(wr(1, 5) == (L1_MISS | INVALIDATION));
	check(rd(0, 5) == L1_MISS);
	check(rd(4, 5) == (L1_MISS | L2_MISS | FROM_REMOTE));
}

static void the_last_writer_is_told(void)
{
	struct site written = {0};

	setup(1, 1, 8);
	wr(0, 5);
	model_access(&model, 1, 5, false, (struct site){77, 1}, &written);
	check(written.pc == 1 && written.offset == 5);
	model_access(&model, 1, 5, true, (struct site){78, 2}, &written);
	check(written.pc == 1 && written.offset == 5);
	model_access(&model, 0, 5, true, (struct site){79, 3}, &written);
	check(written.pc == 78 && written.offset == 2);
}

static bool has(struct level *level, uint32_t cache, uint32_t line)
{
	uint32_t *ways = level_set(level, cache, line);
	uint32_t way, nr = 0;

	for (way = 0; way < level->nr_ways; way++)
		nr += ways[way] == line + 1;
	check(nr <= 1);
	return nr;
}

/* What the directory says of @line is how the caches are. */
static void check_line(uint32_t line)
{
	struct line *of = model_line(&model, line);
	uint32_t i;

	for (i = 0; i < model.l1.nr_caches; i++) {
		uint32_t l2 = i * model.l1.nr_cpus / model.l2.nr_cpus;

		check(!has(&model.l1, i, line) || has(&model.l2, l2, line));
	}
	for (i = 0; i < model.l2.nr_caches; i++)
		check(has(&model.l2, i, line) == (of->l2s >> i & 1));
	for (i = 0; i < model.l3.nr_caches; i++)
		check(has(&model.l3, i, line) == (of->l3s >> i & 1));
	if (of->owner >= OWNER_L3)
		check(of->l3s >> (of->owner - OWNER_L3) & 1);
	else if (of->owner >= OWNER_L2)
		check(of->l2s == 1ull << (of->owner - OWNER_L2));
}

static void directory_and_caches_agree_whatever_happens(void)
{
	const uint32_t shares[][3] = {{1, 1, 8}, {1, 1, 2}, {2, 2, 4},
				      {1, 4, 8}, {1, 2, 4}, {2, 4, 4},
				      {1, 3, 6}, {1, 1, 1}};
	uint64_t random = 1;
	uint32_t i, j, line;

	for (i = 0; i < sizeof(shares) / sizeof(*shares); i++) {
		setup(shares[i][0], shares[i][1], shares[i][2]);
		for (j = 0; j < 100000; j++) {
			unsigned events;

			random = random * 6364136223846793005ull + 1;
			line = (random >> 40) % 96;
			events = do_access((random >> 33) % NR_CPUS, line,
					   !((random >> 50) % 3));
			check(!(events & L2_MISS) || events & L1_MISS);
			check(!(events &
				(FROM_REMOTE | FROM_FAR | FROM_MEMORY)) ||
			      events & L2_MISS);
			if (j % 64)
				continue;
			for (line = 0; line < 96; line++)
				check_line(line);
		}
	}
}

int main(void)
{
	a_walk_meets_the_smallest_cache_that_holds_it();
	what_was_used_least_recently_is_replaced();
	what_leaves_an_l2_leaves_its_l1();
	sets_need_not_be_a_power_of_two();
	two_that_write_in_turn_take_the_line_each_time();
	readers_share_a_line_until_one_writes();
	what_nobody_wrote_is_not_remote();
	what_left_the_l2_of_its_writer_is_in_the_l3();
	below_another_l3_it_is_far();
	threads_of_a_core_share();
	cores_below_one_l2_invalidate_an_l1_only();
	the_last_writer_is_told();
	directory_and_caches_agree_whatever_happens();
	return status;
}
