// SPDX-License-Identifier: GPL-2.0-only
#include "stack.h"
#include "memory.h"

#include <stdlib.h>

#define STACK_SIZE ((uint64_t)16 << 10) /* THREAD_SIZE of x86-64 without KASAN */
#define MOST_FRAMES 1024
#define BUCKETS 4096

struct frame {
	uint64_t back;      /* where a call returns to; 0 for an interruption */
	struct node *node;  /* what goes on then */
	enum ending ending; /* of the block before an interruption, which has not been followed yet */
	uint64_t end;
};

struct task {
	uint64_t stack;
	struct task *next;
	struct node *node;
	struct frame *frames;
	unsigned int count, room;
};

static struct task first_task; /* that the kernel starts with; it becomes the idle task */
static struct task *buckets[BUCKETS], *task = &first_task;
static uint64_t first_write, last_read, surprises;

uint64_t stack_surprises(void)
{
	return surprises;
}

void stack_accessed(uint64_t address, bool write)
{
	if (!write)
		last_read = address;
	else if (!first_write)
		first_write = address;
}

static struct task **task_slot(uint64_t stack)
{
	struct task **slot = &buckets[stack / STACK_SIZE % BUCKETS];

	while (*slot && (*slot)->stack != stack)
		slot = &(*slot)->next;
	return slot;
}

static void begin_task(struct task *which)
{
	which->node = root(ROOT_KERNEL);
	which->count = 0;
}

static void switch_task(void)
{
	uint64_t old = first_write & ~(STACK_SIZE - 1), new = last_read & ~(STACK_SIZE - 1);
	struct task **slot;

	if (!task->stack) {
		task->stack = old;
		*task_slot(old) = task;
	}
	if (task->stack != old)
		surprises++;
	slot = task_slot(new);
	if (!*slot) {
		*slot = taken(sizeof(**slot));
		(*slot)->stack = new;
		begin_task(*slot);
	}
	task = *slot;
}

static void push(uint64_t back, const struct frame *last)
{
	if (task->count == MOST_FRAMES)
		fail("%u calls are nested", MOST_FRAMES);
	if (task->count == task->room) {
		task->room = task->room ? 2 * task->room : 16;
		task->frames = grown(task->frames, task->room * sizeof(*task->frames));
	}
	task->frames[task->count++] = (struct frame){
		.back = back,
		.node = task->node,
		.ending = last->ending,
		.end = last->end,
	};
}

/* Return to ADDRESS: past calls whose return was skipped on purpose (FILL_RETURN_BUFFER, retpolines). */
static bool pop_call(uint64_t address)
{
	for (unsigned int i = task->count; i-- && task->frames[i].back;) {
		if (task->frames[i].back != address)
			continue;
		task->node = task->frames[i].node;
		task->count = i;
		return true;
	}
	return false;
}

/* The end of an interruption of the kernel; FRAME has how the block before it ended. False where there was none. */
static bool pop_interruption(struct frame *frame)
{
	for (unsigned int i = task->count; i--;) {
		*frame = task->frames[i];
		if (frame->back)
			continue;
		task->node = frame->node;
		task->count = i;
		return true;
	}
	return false;
}

static void enter(struct node *parent, const struct function *function)
{
	task->node = node_below(parent, function);
	task->node->calls++;
}

static const struct function *here(void)
{
	return task->node->function;
}

static bool is_thunk(const struct node *node)
{
	return node->function && node->function->kind == KIND_THUNK;
}

static void jump(const struct block *block)
{
	bool entry = block->address == block->function->address;
	struct node *node = task->node;

	if (here() == block->function)
		return;
	if (is_thunk(node) && entry)
		enter(node->parent, block->function);
	else if (node->parent && node->parent->function == block->function && !entry)
		task->node = node->parent; /* back from a part that the compiler moved away */
	else
		enter(node, block->function);
}

static void follow_ending(const struct frame *last, const struct block *block)
{
	bool entry = block->address == block->function->address;

	switch (last->ending) {
	case END_CALL:
		push(last->end, last);
		if (entry)
			enter(task->node, block->function);
		break;
	case END_RETURN:
		/* A return to a function's beginning is the jump of a retpoline. */
		if (!pop_call(block->address) && !entry && here())
			surprises++;
		break;
	default:
		break;
	}
	jump(block);
}

static bool interrupts(const struct block *block)
{
	return block->function->kind == KIND_STUBS ||
	       (block->function->kind == KIND_INTERRUPT && block->address == block->function->address);
}

static bool excepts(const struct block *block)
{
	return block->function->kind == KIND_EXCEPTION && block->address == block->function->address;
}

/* The kernel begins anew, from user space or in a new task. */
static struct node *begin(const struct block *block)
{
	begin_task(task);
	enter(root(interrupts(block) ? ROOT_INTERRUPT : ROOT_KERNEL), block->function);
	return task->node;
}

struct node *stack_follow(const struct block *before, bool complete, const struct block *block)
{
	struct frame last = { .ending = complete ? before->ending : END_OTHER, .end = before->end };
	bool entry = block->address == block->function->address;
	enum kind kind = block->function->kind;

	/* QEMU 7.2 goes on to report accesses of instructions that follow in other functions. */
	if (entry && kind == KIND_SWITCH)
		first_write = 0;
	if (kind == KIND_SWITCHED && before->function && before->function->kind == KIND_SWITCH)
		switch_task();
	/* sync_core() returns from no interrupt to the instruction behind its iret. */
	if (last.ending == END_IRET && block->function == before->function)
		last.ending = END_OTHER;
	if (before->user || last.ending == END_SYSRET || (last.ending == END_IRET && !pop_interruption(&last))) {
		if (!before->user && !interrupts(block) && !excepts(block))
			surprises++;
		return begin(block);
	}
	if (entry && kind == KIND_FORK)
		return begin(block);
	if (entry && kind == KIND_IDLE) {
		task->count = 0;
		enter(root(ROOT_IDLE), block->function);
		return task->node;
	}
	if (interrupts(block) || excepts(block)) {
		push(0, &last);
		enter(interrupts(block) ? root(ROOT_INTERRUPT) : task->node, block->function);
		return task->node;
	}
	follow_ending(&last, block);
	return task->node;
}
