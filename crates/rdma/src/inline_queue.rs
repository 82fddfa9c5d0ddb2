//! Queues that store their first element in place.
//!
//! Most queues of a queue pair hold one element. Its memory is then that of the queue pair, which is in the cache
//! already, and no element of a ring buffer that moves on with each packet.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A first-in-first-out queue that stores its oldest element in place.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct InlineQueue<T> {
    /// The oldest element. `None` only if the queue is empty.
    first: Option<T>,
    rest: VecDeque<T>,
}

impl<T> Default for InlineQueue<T> {
    fn default() -> InlineQueue<T> {
        InlineQueue {
            first: None,
            rest: VecDeque::new(),
        }
    }
}

impl<T> InlineQueue<T> {
    /// Returns whether the queue has no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Adds an element at the back.
    #[inline]
    pub fn push_back(&mut self, element: T) {
        match self.first {
            None => self.first = Some(element),
            Some(_) => self.rest.push_back(element),
        }
    }

    /// Removes the oldest element and returns it.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let first = self.first.take();
        if !self.rest.is_empty() {
            self.first = self.rest.pop_front();
        }
        first
    }

    /// Returns the oldest element.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.first.as_ref()
    }

    /// Returns the element at a position, counted from 0.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        match index.checked_sub(1) {
            None => self.first.as_ref(),
            Some(index) => self.rest.get(index),
        }
    }

    /// Returns the element at a position for changes, see [`InlineQueue::get`].
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        match index.checked_sub(1) {
            None => self.first.as_mut(),
            Some(index) => self.rest.get_mut(index),
        }
    }

    /// Returns the number of elements at the front for which `belongs` is true. The elements must be sorted so that
    /// these come first.
    pub fn partition_point(&self, mut belongs: impl FnMut(&T) -> bool) -> usize {
        match &self.first {
            Some(first) if belongs(first) => 1 + self.rest.partition_point(belongs),
            _ => 0,
        }
    }

    /// Returns the elements, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.first.iter().chain(&self.rest)
    }

    /// Removes all elements.
    pub fn clear(&mut self) {
        self.first = None;
        self.rest.clear();
    }

    /// Removes all elements and returns them, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.first.take().into_iter().chain(self.rest.drain(..))
    }
}

/// A priority queue that removes the smallest element first.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct InlineHeap<T> {
    /// The smallest element. `None` only if the queue is empty.
    first: Option<T>,
    rest: BinaryHeap<Reverse<T>>,
}

impl<T: Ord> Default for InlineHeap<T> {
    fn default() -> InlineHeap<T> {
        InlineHeap {
            first: None,
            rest: BinaryHeap::new(),
        }
    }
}

impl<T: Ord> InlineHeap<T> {
    #[inline]
    pub(super) fn push(&mut self, element: T) {
        match &mut self.first {
            None => self.first = Some(element),
            Some(first) if element < *first => {
                let second = std::mem::replace(first, element);
                self.rest.push(Reverse(second));
            }
            Some(_) => self.rest.push(Reverse(element)),
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        let first = self.first.take();
        if !self.rest.is_empty() {
            self.first = self.rest.pop().map(|Reverse(element)| element);
        }
        first
    }

    /// Returns the smallest element.
    #[inline]
    pub(super) fn peek(&self) -> Option<&T> {
        self.first.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_testing::random_generator;

    #[test]
    fn a_queue_acts_like_a_ring_buffer() {
        let mut draw = random_generator(1);
        let (mut queue, mut model) = (InlineQueue::default(), VecDeque::new());
        for step in 0..2_000_u64 {
            match draw(5) {
                0 | 1 => {
                    queue.push_back(step);
                    model.push_back(step);
                }
                2 | 3 => assert_eq!(queue.pop_front(), model.pop_front()),
                _ if draw(20) == 0 => {
                    assert!(queue.drain().eq(model.drain(..)));
                }
                _ if draw(20) == 0 => {
                    queue.clear();
                    model.clear();
                }
                _ => {
                    let index = draw(6) as usize;
                    assert_eq!(queue.get_mut(index), model.get_mut(index));
                }
            }
            let limit = step.saturating_sub(draw(8));
            assert_eq!(queue.is_empty(), model.is_empty());
            assert_eq!(queue.front(), model.front());
            assert!((0..6).all(|index| queue.get(index) == model.get(index)));
            assert_eq!(
                queue.partition_point(|element| *element < limit),
                model.partition_point(|element| *element < limit)
            );
        }
    }

    #[test]
    fn a_heap_returns_the_smallest_element_first() {
        let mut draw = random_generator(2);
        let (mut heap, mut model) = (InlineHeap::default(), Vec::new());
        for step in 0..2_000_u64 {
            let smallest = model.iter().min().copied();
            assert_eq!(heap.peek().copied(), smallest);
            if draw(2) == 0 {
                let element = (draw(9), step);
                heap.push(element);
                model.push(element);
            } else {
                assert_eq!(heap.pop(), smallest);
                model.retain(|element| Some(*element) != smallest);
            }
        }
    }
}
